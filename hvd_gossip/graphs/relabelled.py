"""Graphs whose replicas change places at random in each round: randomized averaging of (A)D-PSGD, random pairs.

Source: arXiv:2002.01119.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache

import numpy as np
import scipy.sparse as sp

from hvd_gossip.graphs.local import LocalTopology
from hvd_gossip.graphs.registry import graph
from hvd_gossip.graphs.schedules import Varying
from hvd_gossip.graphs.seeds import generator
from hvd_gossip.graphs.static import ring
from hvd_gossip.graphs.topology import Row, Topology, replicas
from hvd_gossip.specification import label


class Relabelled(Topology):
    r"""A graph whose replica p[i] takes the place of replica i.

    `W' = P^T W P` with `P[i, p_i] = 1`: `W'[p_i, p_j] = W[i, j]`.

    Args:
        name: what the user called it.
        base: the graph.
        permutation: p, an int64 array of shape [n].

    Raises:
        ValueError: p is no permutation of 0 … n - 1.

    Example:
        >>> Relabelled("pairs", ring(4), np.array([0, 2, 1, 3])).row(0).sources.tolist()
        [2, 3]
    """

    def __init__(self, name: str, base: Topology, permutation: np.ndarray) -> None:
        super().__init__(name, base.n)
        self.base = base
        self.permutation = np.asarray(permutation, dtype=np.int64)
        if not np.array_equal(np.sort(self.permutation), np.arange(self.n)):
            raise ValueError(f"graph {name!r}: expected a permutation of 0 to {self.n - 1}")

    def row(self, rank: int) -> Row:
        self.check_rank(rank)
        row = base_row(self.base, int(np.flatnonzero(self.permutation == rank)[0]))
        sources = self.permutation[row.sources]
        order = np.argsort(sources)
        destinations = np.sort(self.permutation[row.destinations])
        return Row(row.self_weight, sources[order], row.source_weights[order], destinations)

    @property
    def edges(self) -> Hashable:
        return ("relabelled", self.base.edges, self.permutation.tobytes())

    def matrix(self) -> sp.csr_array:
        edges = self.base.matrix().tocoo()
        places = (self.permutation[edges.row], self.permutation[edges.col])
        return sp.coo_array((edges.data, places), shape=(self.n, self.n)).tocsr()

    def entries(self) -> int:
        return self.base.entries()

    @property
    def symmetric(self) -> bool:
        return self.base.symmetric

    @property
    def doubly_stochastic(self) -> bool:
        return self.base.doubly_stochastic


@lru_cache(maxsize=1024)
def base_row(base: Topology, rank: int) -> Row:
    """A row of the graph that is relabelled, which stays the same in all rounds."""
    return base.row(rank)


def second_moment(base: Topology) -> float:
    r"""The second eigenvalue of E[W^T W] when a doubly stochastic graph is relabelled evenly at random.

    The expectation commutes with every permutation, so it is a multiple of I and one of J:
    `lambda_2 = (||W||_F^2 - 1)/(n - 1)`; `(n - 3)/(3 (n - 1))` for the ring.
    """
    return float((base.matrix().data ** 2).sum() - 1) / (base.n - 1) if base.n > 1 else 0.0


def relabelled(name: str, base: Topology, seed: int) -> Varying:
    """The schedule that relabels one doubly stochastic graph afresh in each round."""
    generator(name, seed)
    purpose = name.partition(":")[0]
    return Varying(
        name,
        base.n,
        lambda round, epoch: Relabelled(
            f"{name} round {round}", base, generator(purpose, seed, round).permutation(base.n)
        ),
        degree=base.degree,
        random=True,
        second_moment=second_moment(base),
    )


@graph
def random_ring(n: int, seed: int = 0) -> Varying:
    r"""The ring, on which all replicas change places at random in each round.

    `W(t) = P_t^T R P_t`, R the ring's matrix; `lambda_2(E[W^T W]) = (n - 3)/(3 (n - 1))`, nearly independent of n.

    Args:
        n: number of replicas, at least 1.
        seed: which places.

    Raises:
        ValueError: n is not an integer of at least 1, or seed not one of at least 0.

    Example:
        >>> round(1 - random_ring(16).second_moment, 4)
        0.7111

    Source: arXiv:2002.01119.
    """
    return relabelled(label("random_ring", seed=seed), ring(n), seed)


@graph
def random_matching(n: int, seed: int = 0) -> Varying:
    r"""Random pairs average in each round; of an odd number one replica stays alone.

    `W(t)[i, i] = W(t)[i, j] = 1/2` for a pair; `lambda_2(E[W^T W]) = (n - 2)/(2 (n - 1))` for even n.

    Args:
        n: number of replicas, at least 1.
        seed: which pairs.

    Raises:
        ValueError: n is not an integer of at least 1, or seed not one of at least 0.

    Example:
        >>> random_matching(8, seed=1)(round=0).row(0).source_weights.tolist()
        [0.5]

    Source: S. Boyd, A. Ghosh, B. Prabhakar, D. Shah, doi:10.1109/TIT.2006.874516 (randomized gossip).
    """
    name = label("random_matching", seed=seed)
    n = replicas(name, n)

    def neighbours(ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        partner = np.where(ranks ^ 1 < n, ranks ^ 1, ranks)
        return partner[:, None], np.full((len(ranks), 1), 0.5)

    return relabelled(name, LocalTopology("pairs", n, "pairs", neighbours), seed)
