"""A communication graph with its mixing weights: one sparse matrix W, read row by row.

Rows receive: `W[i, j]` is the weight that rank i gives to what it receives from rank j, rows sum to 1, and an edge
j -> i of the networkx graph carries it.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from numbers import Real
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import numpy as np
import scipy.sparse as sp

MOST_REPLICAS = 2**31 - 1
"""MPI numbers ranks with 32 bits."""
MOST_WEIGHTS = 20_000_000
"""A W with more weights is not looked at as a whole."""


class Row(NamedTuple):
    """What one rank has to know of W: its own weight, whom it hears with which weight, and who hears it."""

    self_weight: float
    sources: np.ndarray
    source_weights: np.ndarray
    destinations: np.ndarray


def integer(name: str, option: str, value: int, least: int = 1) -> int:
    """An option of graph `name` as an int.

    Raises:
        ValueError: it is not an integer of at least `least`.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"graph {name!r}: got {option} = {value!r}, expected an integer of at least {least}")
    return int(value)


def boolean(name: str, option: str, value: bool) -> bool:
    """An option of graph `name` as a bool.

    Raises:
        ValueError: it is neither true nor false.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"graph {name!r}: got {option} = {value!r}, expected true or false")
    return bool(value)


def number(name: str, option: str, value: float, fits: Callable[[float], bool], expected: str) -> float:
    """An option of graph `name` as a float.

    Raises:
        ValueError: it is no real number, or one that does not fit.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not fits(float(value)):
        raise ValueError(f"graph {name!r}: got {option} = {value!r}, expected {expected}")
    return float(value)


def replicas(name: str, n: int) -> int:
    """The number of replicas as an int.

    Raises:
        ValueError: n is not an integer from 1 to 2^31 - 1.
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"graph {name!r}: got n = {n!r}, expected an integer number of replicas of at least 1")
    if n > MOST_REPLICAS:
        raise ValueError(f"graph {name!r}: got n = {n}, expected at most {MOST_REPLICAS}: MPI has no more ranks")
    return int(n)


def require_topology(given: object) -> None:
    """Refuse what is no graph of one round.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(given, Topology):
        raise ValueError(f"got {called(given)}: expected a Topology; of a schedule give one round, schedule(round)")


def called(given: object) -> str:
    """What was given, in words that are the same on all ranks."""
    told = repr(given)
    return f"a {type(given).__name__} {getattr(given, '__name__', '')}".rstrip() if " at 0x" in told else told


class Topology(ABC):
    r"""A mixing matrix W of n replicas, `x_i <- W[i, i] x_i + sum_j W[i, j] x_j`.

    A rank asks for its own row and never builds the rest. Subclasses give `row`, and the rest where a faster way than
    row by row exists.

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

    def entries(self) -> int:
        """How many weights W has at most, found without building it."""
        rows = (self.row(rank) for rank in range(self.n))
        return sum(len(row.sources) + 1 for row in rows)

    def whole(self) -> sp.csr_array:
        """`matrix()`, unless it is too large to be looked at as a whole.

        Raises:
            ValueError: it has more than 20,000,000 weights.
        """
        if (size := self.entries()) > MOST_WEIGHTS:
            raise ValueError(
                f"graph {self.name!r}: {self.n:,} replicas have {size:,} weights, at most {MOST_WEIGHTS:,} are "
                "looked at as a whole; the row of a single rank is always to be had"
            )
        return self.matrix()

    def mixing(self) -> Callable[[np.ndarray], np.ndarray]:
        """The function x -> W x, for float64 arrays of shape [n, m].

        Raises:
            ValueError: W is too large to be looked at as a whole.
        """
        return self.whole().__matmul__

    def fingerprint(self) -> bytes:
        """A digest of edges and weights; where weights follow from the name, the name stands for them."""
        return hashlib.blake2b(repr((self.name, self.n, self.edges)).encode(), digest_size=16).digest()

    def degrees_of(self, ranks: np.ndarray) -> np.ndarray:
        """How many others each of these ranks hears: an int64 array."""
        return np.array([len(self.row(int(rank)).sources) for rank in ranks], dtype=np.int64)

    def degrees(self) -> tuple[np.ndarray, np.ndarray]:
        """How many others each rank hears, and how many hear it: two int64 arrays of shape [n]."""
        matrix = self.whole().tocoo()
        rows, columns = (axis[matrix.row != matrix.col] for axis in matrix.coords)
        return np.bincount(rows, minlength=self.n), np.bincount(columns, minlength=self.n)

    @property
    def degree(self) -> int:
        """The largest number of replicas that one hears, or that hear it."""
        return max(int(degrees.max()) for degrees in self.degrees())

    @property
    def symmetric(self) -> bool:
        """Whether W equals its transpose, up to rounding."""
        matrix = self.whole()
        return bool(abs(matrix - matrix.T).max() <= 1e-12)

    @property
    def doubly_stochastic(self) -> bool:
        """Whether the columns of W sum to 1 as well, up to rounding: then the mean of the replicas is kept."""
        return bool(np.abs(self.whole().sum(axis=0) - 1).max() <= 1e-12 * self.n)

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

    def draw(self, path: str | Path) -> Path:
        """Write a PNG file with the replicas on a circle and W as a picture; returns its path.

        Raises:
            ValueError: matplotlib is not installed, or the file cannot be a PNG or not be written.
        """
        from hvd_gossip.graphs.drawing import draw_topology

        return draw_topology(self, Path(path))

    def check_rank(self, rank: int) -> None:
        """Refuse a rank that is not one of 0 … n − 1."""
        if not 0 <= rank < self.n:
            raise ValueError(f"graph {self.name!r}: got rank {rank}, expected 0 to {self.n - 1}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, n={self.n})"


class SymmetricTopology(Topology):
    """A graph whose W is symmetric by construction, hence doubly stochastic."""

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def doubly_stochastic(self) -> bool:
        return True
