"""Undirected graphs given by a list of their edges, with metropolis weights."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

import numpy as np
import scipy.sparse as sp

from hvd_gossip.graphs.topology import Row, SymmetricTopology


def metropolis(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Weights of edges from the degrees of their ends: `1/(1 + max(d_i, d_j))`."""
    return 1 / (1 + np.maximum(one, other))


def with_rest(n: int, rows: np.ndarray, columns: np.ndarray, weights: np.ndarray) -> sp.csr_array:
    """W whose diagonal takes what the edges columns -> rows leave of each row."""
    rest = 1 - np.bincount(rows, weights=weights, minlength=n)
    ranks = np.arange(n)
    data = np.concatenate([weights, np.where(np.abs(rest) < 1e-12, 0.0, rest)])
    indices = (np.concatenate([rows, ranks]), np.concatenate([columns, ranks]))
    return sp.coo_array((data, indices), shape=(n, n)).tocsr()


class EdgeList(SymmetricTopology):
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
        weights = metropolis(self._degree[sources], self._degree[rank])
        return Row(max(0.0, 1.0 - float(weights.sum())), sources, weights, sources)

    @property
    def edges(self) -> Hashable:
        keys = np.minimum(self._one, self._other) * self.n + np.maximum(self._one, self._other)
        return ("edges", self.n, hashlib.blake2b(np.sort(keys).astype("<i8").tobytes(), digest_size=16).hexdigest())

    def matrix(self) -> sp.csr_array:
        rows, columns = np.concatenate([self._one, self._other]), np.concatenate([self._other, self._one])
        return with_rest(self.n, rows, columns, metropolis(self._degree[rows], self._degree[columns]))

    def entries(self) -> int:
        return 2 * len(self._one) + self.n

    def degrees_of(self, ranks: np.ndarray) -> np.ndarray:
        return self._degree[ranks]

    def degrees(self) -> tuple[np.ndarray, np.ndarray]:
        return self._degree, self._degree
