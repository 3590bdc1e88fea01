"""From edges to W: the rules by which the neighbours of a graph are weighted.

Rows receive, rows sum to 1. With `d_i` the number of others that i hears, and W the graph's own weights:

============  =============================================  ======================================================
rule          W[i, j] for an edge j -> i                     doubly stochastic
============  =============================================  ======================================================
uniform       `1/(d_i + 1)`                                  where all degrees are equal
metropolis    `1/(1 + max(d_i, d_j))`                        always; needs a symmetric graph
max_degree    `1/(1 + largest degree of all)`                where every rank hears as many as hear it
lazy          half of W, `(I + W)/2`                         where W is
1/n           `1/n`                                          where every rank hears as many as hear it
fastest       the symmetric W >= 0 with the largest gap      always; needs a symmetric graph and cvxpy
============  =============================================  ======================================================
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
import scipy.sparse as sp

from hvd_gossip import specification
from hvd_gossip.graphs import fastest, limits
from hvd_gossip.graphs.cayley import Cayley
from hvd_gossip.graphs.edge_list import metropolis, with_rest
from hvd_gossip.graphs.matrix_topology import MatrixTopology
from hvd_gossip.graphs.topology import Row, Topology, require_topology

EdgeRule = Callable[[np.ndarray, np.ndarray, int, int], np.ndarray]
"""Degrees of the hearing and of the heard end of each edge, the largest degree, n -> weights of the edges."""

EDGE_RULES: dict[str, EdgeRule] = {
    "uniform": lambda hearing, heard, largest, n: 1 / (1 + hearing),
    "metropolis": lambda hearing, heard, largest, n: metropolis(hearing, heard),
    "max_degree": lambda hearing, heard, largest, n: np.full(len(hearing), 1 / (1 + largest)),
    "1/n": lambda hearing, heard, largest, n: np.full(len(hearing), 1 / n),
}
GLANCE = 8
"""So many replicas tell most irregular graphs from regular ones."""
RULES = (*EDGE_RULES, "lazy", "fastest")
NEED_SYMMETRY = ("metropolis", "fastest")


def reweight(topology: Topology, rule: str) -> Topology:
    r"""The edges of a graph with the weights of a rule.

    Args:
        topology: any graph; its own weights matter to the rule lazy alone.
        rule: uniform, metropolis, max_degree, lazy, 1/n or fastest; see the table of this file.

    Raises:
        ValueError: unknown rule; a rule for symmetric graphs with a directed one; fastest without cvxpy.

    Warns:
        UserWarning: the new W is not doubly stochastic; says what the replicas will drift to.

    Example:
        >>> from hvd_gossip.graphs import ring
        >>> reweight(ring(4), "lazy").row(0).self_weight.__round__(3)
        0.667

    Source: L. Xiao, S. Boyd, doi:10.1016/j.sysconle.2004.02.022 (metropolis, max_degree).
    """
    require_topology(topology)
    specification.choose("rule for weights", rule, RULES)
    name = specification.with_option(topology.name, weights=rule)
    if isinstance(topology, Cayley) and rule == "lazy":
        return topology.with_weights(name, scale=0.5)
    if isinstance(topology, Cayley) and (rule not in NEED_SYMMETRY or topology.symmetric) and rule in EDGE_RULES:
        degree = topology.degrees()[0][:1]
        return topology.with_weights(name, float(EDGE_RULES[rule](degree, degree, int(degree[0]), topology.n)[0]))
    if rule in NEED_SYMMETRY and not topology.symmetric and (edge := one_way(topology)) is not None:
        raise ValueError(
            f"weights {rule!r} need a symmetric graph, but {topology.name!r} is directed: replica {edge[0]} hears "
            f"{edge[1]}, and {edge[1]} does not hear {edge[0]}; use uniform, max_degree or lazy"
        )
    if rule == "fastest":
        return MatrixTopology(name, fastest.fastest(topology.whole()))
    return limits.checked(Reweighted(name, topology, rule))


class Reweighted(Topology):
    """The edges of a graph with the weights of a rule for edges, or lazy; a row needs the rows of its sources at most.

    Args:
        name: what the user called it.
        base: the graph.
        rule: as for `reweight`, but not fastest.
    """

    def __init__(self, name: str, base: Topology, rule: str) -> None:
        super().__init__(name, base.n)
        self.base, self.rule = base, rule
        self._largest = base.degree if rule == "max_degree" else 0

    def row(self, rank: int) -> Row:
        row = self.base.row(rank)
        if self.rule == "lazy":
            return Row((1 + row.self_weight) / 2, row.sources, row.source_weights / 2, row.destinations)
        hearing = np.full(len(row.sources), len(row.sources))
        heard = self.base.degrees_of(row.sources) if self.rule == "metropolis" else hearing
        weights = EDGE_RULES[self.rule](hearing, heard, self._largest, self.n)
        return Row(rest_of(weights), row.sources, weights, row.destinations)

    @property
    def edges(self) -> Hashable:
        return self.base.edges

    def fingerprint(self) -> bytes:
        return self.base.fingerprint() + super().fingerprint()

    def entries(self) -> int:
        return self.base.entries() + self.n

    def matrix(self) -> sp.csr_array:
        matrix = self.base.matrix()
        if self.rule == "lazy":
            return sp.csr_array((sp.eye_array(self.n) + matrix) / 2)
        edges = matrix.tocoo()
        others = edges.row != edges.col
        return weighted(self.n, edges.row[others], edges.col[others], self.rule)

    def degrees(self) -> tuple[np.ndarray, np.ndarray]:
        return self.base.degrees()

    def degrees_of(self, ranks: np.ndarray) -> np.ndarray:
        return self.base.degrees_of(ranks)

    @property
    def symmetric(self) -> bool:
        if not self.base.symmetric:
            return super().symmetric
        return self.rule != "uniform" or self._even()

    @property
    def doubly_stochastic(self) -> bool:
        # With uniform weights pi is in proportion to the degrees plus 1 wherever edges have both directions.
        return self.symmetric if self.base.symmetric else super().doubly_stochastic

    def _even(self) -> bool:
        """Whether all hear replicas of their own degree only; the first few tell it of most graphs in which not."""
        for rank in range(min(self.n, GLANCE)):
            sources = self.base.row(rank).sources
            if (self.base.degrees_of(sources) != len(sources)).any():
                return False
        degrees = self.base.degrees()[0]
        if (degrees == degrees[0]).all():
            return True
        edges = self.whole().tocoo()
        return bool((degrees[edges.row] == degrees[edges.col]).all())


def one_way(topology: Topology) -> tuple[int, int] | None:
    """A replica and one that it hears without being heard, or None in a symmetric graph."""
    pattern = topology.matrix().astype(bool).astype(np.int8)
    single = (pattern - pattern.T).tocoo()
    lacking = np.flatnonzero(single.data > 0)
    return (int(single.row[lacking[0]]), int(single.col[lacking[0]])) if len(lacking) else None


def rest_of(weights: np.ndarray) -> float:
    """What the weights of its sources leave to a replica; rounding is no weight."""
    rest = 1.0 - float(weights.sum())
    return rest if rest > 1e-12 else 0.0


def weighted(n: int, rows: np.ndarray, columns: np.ndarray, rule: str) -> sp.csr_array:
    """W of directed edges columns -> rows (each listed once) by a rule for edges."""
    hears, heard_by = np.bincount(rows, minlength=n), np.bincount(columns, minlength=n)
    largest = int(max(hears.max(), heard_by.max()))
    return with_rest(n, rows, columns, EDGE_RULES[rule](hears[rows], hears[columns], largest, n))
