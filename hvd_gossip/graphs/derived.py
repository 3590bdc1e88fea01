"""Schedules that follow from another one graph by graph: lazy weights, and column-stochastic ones for push-sum."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
import scipy.sparse as sp

from hvd_gossip.graphs.schedules import Schedule, Static, Varying
from hvd_gossip.graphs.topology import Row, Topology
from hvd_gossip.graphs.weights import reweight


class Pushing(Topology):
    """The edges of a graph with weights that the sender decides: each splits what it has evenly.

    `P[i, j] = 1/(e_j + 1)` for an edge j -> i and for i = j, with e_j the number of others that hear j. Columns sum to
    1, and rows need not.

    Args:
        base: the graph; its own weights do not matter.

    Example:
        >>> from hvd_gossip.graphs import star
        >>> Pushing(star(3)).matrix().toarray().sum(axis=0).tolist()
        [1.0, 1.0, 1.0]

    Source: arXiv:1811.10792.
    """

    def __init__(self, base: Topology) -> None:
        super().__init__(f"{base.name} (pushing)", base.n)
        self.base = base

    def row(self, rank: int) -> Row:
        row = self.base.row(rank)
        heard = np.array([len(self.base.row(int(source)).destinations) for source in row.sources], dtype=np.float64)
        return row._replace(self_weight=1 / (len(row.destinations) + 1), source_weights=1 / (heard + 1))

    @property
    def edges(self) -> Hashable:
        return self.base.edges

    def matrix(self) -> sp.csr_array:
        pattern = self.base.matrix()
        pattern = pattern + sp.eye_array(self.n, format="csr")
        pattern.data = np.ones_like(pattern.data)
        return (pattern @ sp.diags_array(1 / pattern.sum(axis=0))).tocsr()

    def entries(self) -> int:
        return self.base.entries()

    def fingerprint(self) -> bytes:
        return self.base.fingerprint()


def each(schedule: Schedule, name: str, function: Callable[[Topology], Topology]) -> Schedule:
    """The schedule of `function(graph)` for each graph of another one, of the same edges."""
    if schedule.period == 1:
        return Static(function(schedule(0)))
    degree, random = getattr(schedule, "degree", None), getattr(schedule, "random", False)
    return Varying(
        name, schedule.n, lambda round, epoch: function(schedule(round, epoch)), schedule.period, degree, random
    )


def pushing(schedule: Schedule) -> Schedule:
    """A schedule with the column-stochastic weights of push-sum."""
    return each(schedule, f"{schedule.name} (pushing)", Pushing)


def lazy(schedule: Schedule) -> Schedule:
    """A schedule with `(I + W)/2` in place of W: no eigenvalue of a symmetric one is negative."""
    return each(schedule, f"{schedule.name} (lazy)", lambda topology: reweight(topology, "lazy"))
