"""Undirected graphs given by a list of their edges, with metropolis weights."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

import numpy as np
import scipy.sparse as sp

from hvd_gossip.graphs.topology import Row, Topology


class EdgeList(Topology):
    r"""An undirected graph: `W[i, j] = 1/(1 + max(d_i, d_j))` on edges, d the degrees.

    A row is found without building the matrix.

    Args:
        name: what the user called it.
        n: the number of replicas.
        one: an end of each edge, int64 of shape [m]; no loops, no edge twice.
        other: the other end.

    Example:
        >>> EdgeList("path", 3, np.array([0, 1]), np.array([1, 2])).row(1).sources.tolist()
        [0, 2]
    """

    def __init__(self, name: str, n: int, one: np.ndarray, other: np.ndarray) -> None:
        super().__init__(name, n)
        self._one, self._other = np.asarray(one, dtype=np.int64), np.asarray(other, dtype=np.int64)
        self._degree = np.bincount(self._one, minlength=n) + np.bincount(self._other, minlength=n)

    def row(self, rank: int) -> Row:
        self.check_rank(rank)
        sources = np.sort(np.concatenate([self._other[self._one == rank], self._one[self._other == rank]]))
        weights = 1 / (1 + np.maximum(self._degree[sources], self._degree[rank]))
        return Row(max(0.0, 1.0 - float(weights.sum())), sources, weights, sources)

    @property
    def edges(self) -> Hashable:
        keys = np.minimum(self._one, self._other) * self.n + np.maximum(self._one, self._other)
        return ("edges", self.n, hashlib.blake2b(np.sort(keys).astype("<i8").tobytes(), digest_size=16).hexdigest())

    def matrix(self) -> sp.csr_array:
        weights = 1 / (1 + np.maximum(self._degree[self._one], self._degree[self._other]))
        upper = sp.coo_array((weights, (self._one, self._other)), shape=(self.n, self.n))
        edges = (upper + upper.T).tocsr()
        rest = np.maximum(0.0, 1.0 - edges.sum(axis=1))
        return (edges + sp.diags_array(rest * (rest > 1e-12))).tocsr()

    def degrees(self) -> tuple[np.ndarray, np.ndarray]:
        return self._degree, self._degree

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def doubly_stochastic(self) -> bool:
        return True
