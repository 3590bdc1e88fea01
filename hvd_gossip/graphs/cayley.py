"""Graphs that look the same from every rank: W is given by one row, and its spectrum by a Fourier transform."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping

import numpy as np
import scipy.sparse as sp

from hvd_gossip.graphs.topology import Row, Topology, replicas

Shift = tuple[int, ...]
DENSE = 64
"""From so many neighbours on, mixing goes by Fourier transforms."""


class Cayley(Topology):
    r"""W of a Cayley graph of the group `Z_a x Z_b x …`: rank i hears i + s for each shift s, with weight w(s).

    Ranks are numbered with the last coordinate running fastest. W is doubly stochastic and normal whatever the
    weights, and its eigenvalues are the Fourier transform of w.

    Args:
        name: what the user called it.
        shape: a, b, …; their product is n.
        weights: w by shift, one coordinate for each dimension, taken modulo the shape. Shifts that coincide are added;
            what is missing to a sum of 1 stays with the rank itself.

    Raises:
        ValueError: a weight is negative or not finite, or they sum to more than 1.

    Example:
        >>> Cayley("torus", (2, 3), {(1, 0): 0.25, (0, 1): 0.25, (0, -1): 0.25}).row(0).sources.tolist()
        [1, 2, 3]

    Source: arXiv:1705.09056 (the ring); arXiv:2110.13363 (spectra of circulant graphs).
    """

    def __init__(self, name: str, shape: Iterable[int], weights: Mapping[Shift, float]) -> None:
        self.shape = tuple(replicas(name, size) for size in shape)
        super().__init__(name, math.prod(self.shape))
        self._add(weights)

    def _add(self, weights: Mapping[Shift, float]) -> None:
        given = np.array([float(weight) for weight in weights.values()])
        if not np.all(np.isfinite(given)) or np.any(given < 0) or given.sum() > 1 + 1e-12:
            raise ValueError(f"graph {self.name!r}: weights must be finite, not negative, and sum to at most 1")
        shifts = np.array(list(weights), dtype=np.int64).reshape(len(weights), len(self.shape))
        places = np.ravel_multi_index(tuple((shifts % self.shape).T), self.shape)
        where, index = np.unique(places, return_inverse=True)
        totals = np.bincount(index, weights=given).astype(np.float64)
        others = (where != 0) & (totals > 0)
        self._offsets, self._weights = where[others], totals[others]
        self._shifts = np.stack(np.unravel_index(self._offsets, self.shape), axis=1)
        self.self_weight = max(0.0, 1.0 - math.fsum(self._weights))

    def _neighbours(self, ranks: np.ndarray, sign: int) -> np.ndarray:
        coordinates = np.stack(np.unravel_index(ranks, self.shape), axis=-1)
        moved = (coordinates[..., None, :] + sign * self._shifts) % self.shape
        return np.ravel_multi_index(tuple(np.moveaxis(moved, -1, 0)), self.shape)

    def row(self, rank: int) -> Row:
        self.check_rank(rank)
        sources = self._neighbours(np.asarray(rank), 1)
        order = np.argsort(sources)
        destinations = np.sort(self._neighbours(np.asarray(rank), -1))
        return Row(self.self_weight, sources[order], self._weights[order], destinations)

    @property
    def edges(self) -> Hashable:
        return ("cayley", self.shape, self._offsets.tobytes())

    def matrix(self) -> sp.csr_array:
        ranks = np.arange(self.n)
        columns = np.concatenate([ranks[:, None], self._neighbours(ranks, 1)], axis=1)
        weights = np.tile(np.append(self.self_weight, self._weights), self.n)
        starts = np.arange(0, columns.size + 1, columns.shape[1])
        matrix = sp.csr_array((weights, columns.ravel(), starts), shape=(self.n, self.n))
        matrix.sort_indices()
        return matrix

    def entries(self) -> int:
        return self.n * (len(self._offsets) + 1)

    def degrees_of(self, ranks: np.ndarray) -> np.ndarray:
        return np.full(len(ranks), len(self._offsets))

    @property
    def degree(self) -> int:
        return len(self._offsets)

    def degrees(self) -> tuple[np.ndarray, np.ndarray]:
        degree = np.full(self.n, len(self._offsets))
        return degree, degree

    @property
    def symmetric(self) -> bool:
        first = self._kernel()
        return bool(np.abs(first - np.roll(np.flip(first), 1, axis=tuple(range(first.ndim)))).max() <= 1e-12)

    @property
    def doubly_stochastic(self) -> bool:
        return True

    def _kernel(self) -> np.ndarray:
        """Row 0 of W, in the shape of the group."""
        first = np.zeros(self.n)
        first[0] = self.self_weight
        first[self._offsets] = self._weights
        return first.reshape(self.shape)

    def eigenvalues(self) -> np.ndarray:
        """All n eigenvalues of W, complex, in the shape of the group; the first is 1."""
        return np.conj(np.fft.fftn(self._kernel()))

    def mixing(self) -> Callable[[np.ndarray], np.ndarray]:
        if len(self._offsets) < DENSE:
            return super().mixing()
        spectrum = self.eigenvalues()[..., None]
        axes = tuple(range(len(self.shape)))

        def mixed(x: np.ndarray) -> np.ndarray:
            there = np.fft.fftn(x.reshape(*self.shape, -1), axes=axes) * spectrum
            return np.fft.ifftn(there, axes=axes).real.reshape(x.shape)

        return mixed

    def with_weights(self, name: str, weights: float | None = None, scale: float = 1.0) -> Cayley:
        """The same edges, all with one weight or with their own, times `scale`."""
        each = self._weights if weights is None else np.full(len(self._weights), weights)
        pairs = zip(self._shifts.tolist(), each.tolist(), strict=True)
        return Cayley(name, self.shape, {tuple(shift): scale * weight for shift, weight in pairs})


class Circulant(Cayley):
    """W of a graph in which rank i hears i + s (mod n) for each shift s, all with the weight 1/(number of sources + 1).

    Args:
        name: what the user called it.
        n: the number of replicas.
        shifts: where the sources of rank 0 lie; taken modulo n, 0 and repetitions are dropped.

    Example:
        >>> Circulant("ring", 4, (-1, 1)).row(0).sources.tolist()
        [1, 3]
    """

    def __init__(self, name: str, n: int, shifts: Iterable[int]) -> None:
        distinct = sorted({shift % replicas(name, n) for shift in shifts} - {0})
        super().__init__(name, (n,), {(shift,): 1.0 / (len(distinct) + 1) for shift in distinct})
        # The same bits as every source's weight: two equal replicas then stay equal to the last bit.
        self.self_weight = 1.0 / (len(distinct) + 1)
