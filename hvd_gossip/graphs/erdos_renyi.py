"""The random graph of Erdős, Rényi and Gilbert: each pair is joined or not, told by a hash of the pair alone.

Rows receive, rows sum to 1; metropolis weights, hence W is symmetric and doubly stochastic.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np
import scipy.sparse as sp

from hvd_gossip.graphs import limits
from hvd_gossip.graphs.edge_list import EdgeList, metropolis
from hvd_gossip.graphs.registry import graph
from hvd_gossip.graphs.seeds import generator, hash64
from hvd_gossip.graphs.topology import Row, SymmetricTopology, Topology, number, replicas
from hvd_gossip.specification import label

CHECKED = 4_096
"""Up to so many replicas the graph is drawn again until it is connected; above, that would cost a rank too much."""
ATTEMPTS = 100
PAIRS = 25
"""Looking at so many pairs counts as much as one weight of a W that is looked at as a whole."""
BLOCK = 1 << 22
"""Pairs looked at at once when the whole matrix is built."""


class ErdosRenyi(SymmetricTopology):
    r"""Every pair of replicas joined with probability p: `W[i, j] = 1/(1 + max(d_i, d_j))` on edges.

    A rank finds its row in O(n d) work; the matrix costs O(n^2).

    Args:
        name: what the user called it.
        n: number of replicas.
        p: probability of an edge.
        key: 64-bit number that tells this graph from others.
    """

    def __init__(self, name: str, n: int, p: float, key: int) -> None:
        super().__init__(name, n)
        self._p, self._key = p, key

    def _joined(self, one: np.ndarray | int, other: np.ndarray) -> np.ndarray:
        pair = (np.minimum(one, other) * self.n + np.maximum(one, other)).astype(np.uint64)
        threshold = min(int(self._p * 2**64), 2**64 - 1)
        return (hash64(pair ^ np.uint64(self._key)) <= np.uint64(threshold)) & (one != other)

    def _neighbours(self, rank: int) -> np.ndarray:
        return np.flatnonzero(self._joined(rank, np.arange(self.n)))

    def row(self, rank: int) -> Row:
        self.check_rank(rank)
        sources = self._neighbours(rank)
        weights = metropolis(self.degrees_of(sources), np.asarray(len(sources)))
        return Row(1 - float(weights.sum()), sources, weights, sources)

    @property
    def edges(self) -> Hashable:
        return ("erdos_renyi", self.n, self._p, self._key)

    def degrees_of(self, ranks: np.ndarray) -> np.ndarray:
        return np.array([len(self._neighbours(int(rank))) for rank in ranks], dtype=np.int64)

    def entries(self) -> int:
        # Every pair has to be looked at, though most are no edges.
        return int(max(self._p * self.n**2, self.n**2 / PAIRS)) + self.n

    def matrix(self) -> sp.csr_array:
        ranks = np.arange(self.n)
        found = []
        for block in np.array_split(ranks, -(-(self.n**2) // BLOCK)):
            joined = self._joined(block[:, None], ranks) & (block[:, None] < ranks)
            rows, columns = np.nonzero(joined)
            found.append(np.stack([rows + block[0], columns]))
        one, other = np.concatenate(found, axis=1)
        return EdgeList(self.name, self.n, one, other).matrix()


@graph
def erdos_renyi(n: int, p: float | None = None, seed: int = 0) -> Topology:
    r"""Every pair of replicas is joined with probability p.

    `W[i, j] = 1/(1 + max(d_i, d_j))` on edges. Up to 4,096 replicas the graph is drawn again until it is connected;
    above, it is taken as it comes.

    Args:
        n: number of replicas.
        p: probability of an edge, in (0, 1] (default: 2 ln(n)/n, twice what connects a large graph).
        seed: which graph.

    Raises:
        ValueError: p is not in (0, 1], or so small that no connected graph was found.

    Example:
        >>> erdos_renyi(10, p=0.5, seed=3).symmetric
        True

    Source: E. Gilbert, doi:10.1214/aoms/1177706098; networkx `erdos_renyi_graph`.
    """
    name = label("erdos_renyi", p=p, seed=seed)
    n = replicas(name, n)
    if p is None:
        p = min(1.0, 2 * math.log(n) / n) if n > 1 else 1.0
    p = number(name, "p", p, lambda p: 0 < p <= 1, "a probability above 0, at most 1")

    def draw(attempt: int) -> Topology:
        low, high = generator("erdos_renyi", seed, attempt).randint(0, 2**32, size=2, dtype=np.uint64).tolist()
        return ErdosRenyi(name, n, p, high << 32 | low)

    found = limits.first_connected(draw, ATTEMPTS, CHECKED)
    if found is None:
        raise ValueError(f"graph {name!r}: none of {ATTEMPTS} graphs drawn is connected: give a larger p")
    return found
