"""A communication graph with its mixing weights: one sparse matrix W, read row by row.

Rows receive: `W[i, j]` is the weight that rank i gives to what it receives from rank j, rows sum to 1, and an edge
j -> i of the networkx graph carries it.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import NamedTuple

import networkx as nx
import numpy as np
import scipy.sparse as sp


class Row(NamedTuple):
    """What one rank has to know of W: its own weight, whom it hears with which weight, and who hears it."""

    self_weight: float
    sources: np.ndarray
    source_weights: np.ndarray
    destinations: np.ndarray


def replicas(name: str, n: int) -> int:
    """The number of replicas as an int.

    Raises:
        ValueError: n is not an integer of at least 1.
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"graph {name!r}: got n = {n!r}, expected an integer number of replicas of at least 1")
    return int(n)


class Topology(ABC):
    r"""A mixing matrix W of n replicas, `x_i <- W[i, i] x_i + sum_j W[i, j] x_j`.

    A rank asks for its own row and never builds the rest. Subclasses give `row`, and `matrix` where a faster way
    than row by row exists.

    Attributes:
        name: what the user called it.
        n: the number of replicas, at least 1.

    Source: arXiv:1705.09056 (the mixing matrix of D-PSGD).
    """

    def __init__(self, name: str, n: int) -> None:
        self.name = name
        self.n = replicas(name, n)

    @abstractmethod
    def row(self, rank: int) -> Row:
        """Row `rank` of W: sources and destinations as ascending int64 arrays, weights as float64."""

    @property
    @abstractmethod
    def edges(self) -> Hashable:
        """A key of the edge set, equal on all ranks, the same for graphs that differ in their weights alone."""

    def matrix(self) -> sp.csr_array:
        """W as a float64 scipy CSR array of shape [n, n]."""
        rows = [self.row(rank) for rank in range(self.n)]
        columns = np.concatenate([np.append(row.sources, rank) for rank, row in enumerate(rows)])
        weights = np.concatenate([np.append(row.source_weights, row.self_weight) for row in rows])
        starts = np.cumsum([0] + [len(row.sources) + 1 for row in rows])
        matrix = sp.csr_array((weights, columns, starts), shape=(self.n, self.n))
        matrix.sort_indices()
        return matrix

    def to_networkx(self) -> nx.DiGraph:
        """The edges j -> i with attribute `weight` = W[i, j]; self-weights are not drawn as loops."""
        graph = nx.DiGraph(name=self.name)
        graph.add_nodes_from(range(self.n))
        for rank in range(self.n):
            row = self.row(rank)
            graph.add_weighted_edges_from(
                (int(source), rank, float(weight))
                for source, weight in zip(row.sources, row.source_weights, strict=True)
            )
        return graph

    def check_rank(self, rank: int) -> None:
        """Refuse a rank that is not one of 0 … n − 1."""
        if not 0 <= rank < self.n:
            raise ValueError(f"graph {self.name!r}: got rank {rank}, expected 0 to {self.n - 1}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, n={self.n})"


class Circulant(Topology):
    """W of a graph that looks the same from every rank: rank i hears i + s (mod n) for each shift s.

    Args:
        name: what the user called it.
        n: the number of replicas.
        shifts: where the sources of rank 0 lie; taken modulo n, 0 and repetitions are dropped.

    Weights are uniform, 1/(number of sources + 1), hence W is doubly stochastic.

    Example:
        >>> Circulant("ring", 4, (-1, 1)).row(0).sources.tolist()
        [1, 3]
    """

    def __init__(self, name: str, n: int, shifts: tuple[int, ...]) -> None:
        super().__init__(name, n)
        self.shifts = tuple(sorted({shift % self.n for shift in shifts} - {0}))

    def row(self, rank: int) -> Row:
        self.check_rank(rank)
        shifts = np.array(self.shifts, dtype=np.int64)
        weight = 1.0 / (len(shifts) + 1)
        return Row(
            self_weight=weight,
            sources=np.sort((rank + shifts) % self.n),
            source_weights=np.full(len(shifts), weight),
            destinations=np.sort((rank - shifts) % self.n),
        )

    @property
    def edges(self) -> Hashable:
        return (self.n, self.shifts)

    def matrix(self) -> sp.csr_array:
        shifts = np.array((0, *self.shifts), dtype=np.int64)
        columns = (np.arange(self.n)[:, None] + shifts) % self.n
        starts = np.arange(0, columns.size + 1, len(shifts))
        weights = np.full(columns.size, 1.0 / len(shifts))
        matrix = sp.csr_array((weights, columns.ravel(), starts), shape=(self.n, self.n))
        matrix.sort_indices()
        return matrix


class MatrixTopology(Topology):
    """W given explicitly.

    Args:
        name: what the user called it.
        matrix: anything scipy turns into a CSR array of shape [n, n], finite, non-negative, rows summing to 1.

    Raises:
        ValueError: the matrix is not square, has a negative or non-finite weight, or a row that does not sum to 1.
    """

    def __init__(self, name: str, matrix: sp.sparray | np.ndarray) -> None:
        self._matrix = sp.csr_array(matrix, dtype=np.float64, copy=True)
        super().__init__(name, self._matrix.shape[0])
        self._check()
        self._matrix.sum_duplicates()
        self._matrix.eliminate_zeros()
        self._columns = self._matrix.tocsc()

    def _check(self) -> None:
        if self._matrix.shape != (self.n, self.n):
            raise ValueError(f"graph {self.name!r}: got a matrix of shape {self._matrix.shape}, expected a square one")
        if not np.all(np.isfinite(self._matrix.data)) or np.any(self._matrix.data < 0):
            raise ValueError(f"graph {self.name!r}: weights must be finite and not negative")
        sums = self._matrix.sum(axis=1)
        worst = int(np.argmax(np.abs(sums - 1)))
        if abs(sums[worst] - 1) > 1e-12 * self.n:
            raise ValueError(
                f"graph {self.name!r}: row {worst} sums to {float(sums[worst])!r}, expected 1: rows receive"
            )

    def row(self, rank: int) -> Row:
        self.check_rank(rank)
        begin, end = self._matrix.indptr[rank : rank + 2]
        sources = self._matrix.indices[begin:end].astype(np.int64)
        weights = self._matrix.data[begin:end]
        others = sources != rank
        begin, end = self._columns.indptr[rank : rank + 2]
        hearers = self._columns.indices[begin:end].astype(np.int64)
        return Row(float(weights[~others].sum()), sources[others], weights[others], np.sort(hearers[hearers != rank]))

    @property
    def edges(self) -> Hashable:
        # Self-weights are no edges: whether one is zero makes no other edge set.
        edges = self._matrix.tocoo()
        pairs = np.stack(edges.coords).astype("<i8")[:, edges.row != edges.col]
        digest = hashlib.blake2b(pairs.tobytes(), digest_size=16)
        return (self.n, digest.hexdigest())

    def matrix(self) -> sp.csr_array:
        return self._matrix.copy()
