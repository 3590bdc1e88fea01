"""Symmetric graphs given by a function from ranks to their neighbours."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
import scipy.sparse as sp

from hvd_gossip.graphs.topology import Row, SymmetricTopology

Neighbours = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class LocalTopology(SymmetricTopology):
    """A symmetric W whose rows come from a function, so that a rank needs nobody else's.

    Args:
        name: what the user called it.
        n: the number of replicas.
        key: tells this edge set from all others.
        neighbours: int64 ranks of shape [m] to sources and float64 weights, both of shape [m, d]. A source may stand
            several times, its weights are added; a place that is not needed names the rank itself with weight 0; what
            is missing to a sum of 1 stays with the rank. It must say the same of an edge from both of its ends.

    Example:
        >>> neighbours = lambda ranks: ((ranks ^ 1)[:, None], np.full((len(ranks), 1), 0.5))
        >>> LocalTopology("pairs", 4, "pairs", neighbours).row(2).sources.tolist()
        [3]
    """

    def __init__(self, name: str, n: int, key: Hashable, neighbours: Neighbours) -> None:
        super().__init__(name, n)
        self._key, self._neighbours = key, neighbours

    def row(self, rank: int) -> Row:
        self.check_rank(rank)
        found, weights, rest = (values[0] for values in self._rows(np.array([rank], dtype=np.int64)))
        sources, index = np.unique(found, return_inverse=True)
        totals = np.bincount(index, weights=weights, minlength=len(sources)).astype(np.float64)
        others = totals > 0
        sources = sources[others].astype(np.int64)
        return Row(float(rest), sources, totals[others], sources)

    def _rows(self, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sources and weights of ranks, 0 where a source is the rank itself, and what they give to themselves."""
        sources, weights = self._neighbours(ranks)
        own = np.where(sources == ranks[:, None], weights, 0.0).sum(axis=1)
        missing = 1.0 - weights.sum(axis=1)
        # Rounding is no weight: a group that averages gives 1/size to each, to the last bit.
        return sources, np.where(sources == ranks[:, None], 0.0, weights), own + np.where(missing > 1e-12, missing, 0.0)

    @property
    def edges(self) -> Hashable:
        return (self.n, self._key)

    def entries(self) -> int:
        return self.n * (self._neighbours(np.zeros(1, dtype=np.int64))[0].shape[1] + 1)

    def degrees(self) -> tuple[np.ndarray, np.ndarray]:
        sources, weights, _ = self._rows(np.arange(self.n))
        heard = np.sort(np.where(weights > 0, sources, -1), axis=1)
        distinct = (np.diff(heard, axis=1, prepend=-1) != 0).sum(axis=1)
        return distinct, distinct

    def matrix(self) -> sp.csr_array:
        ranks = np.arange(self.n)
        sources, weights, rest = self._rows(ranks)
        columns = np.concatenate([sources, ranks[:, None]], axis=1).ravel()
        values = np.concatenate([weights, rest[:, None]], axis=1).ravel()
        starts = np.arange(0, columns.size + 1, sources.shape[1] + 1)
        matrix = sp.csr_array((values, columns, starts), shape=(self.n, self.n))
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return matrix
