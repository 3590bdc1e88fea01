"""W given explicitly, as a matrix."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

import numpy as np
import scipy.sparse as sp

from hvd_gossip.graphs.topology import Row, Topology


class MatrixTopology(Topology):
    """W given explicitly.

    Args:
        name: what the user called it.
        matrix: anything scipy turns into a CSR array of shape [n, n], finite, non-negative, rows summing to 1.
        key: the key of another topology with the same edges.

    Raises:
        ValueError: the matrix is not square, has a negative or non-finite weight, or a row that does not sum to 1.

    Example:
        >>> MatrixTopology("pair", [[0.5, 0.5], [0.5, 0.5]]).row(0).sources.tolist()
        [1]
    """

    def __init__(
        self, name: str, matrix: sp.sparray | np.ndarray | list[list[float]], key: Hashable | None = None
    ) -> None:
        given = sp.csr_array(matrix)
        if given.dtype.kind not in "biuf":
            raise ValueError(f"graph {name!r}: got weights of type {given.dtype}, expected real numbers")
        self._matrix = sp.csr_array(given, dtype=np.float64, copy=True)
        super().__init__(name, self._matrix.shape[0])
        self._check()
        self._matrix.sum_duplicates()
        self._matrix.sort_indices()
        self._matrix.eliminate_zeros()
        self._columns: sp.csc_array | None = None
        self._key = key

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
        if self._columns is None:
            self._columns = self._matrix.tocsc()
        begin, end = self._matrix.indptr[rank : rank + 2]
        sources = self._matrix.indices[begin:end].astype(np.int64)
        weights = self._matrix.data[begin:end]
        others = sources != rank
        begin, end = self._columns.indptr[rank : rank + 2]
        hearers = self._columns.indices[begin:end].astype(np.int64)
        return Row(float(weights[~others].sum()), sources[others], weights[others], np.sort(hearers[hearers != rank]))

    @property
    def edges(self) -> Hashable:
        if self._key is not None:
            return self._key
        # Self-weights are no edges: whether one is zero makes no other edge set.
        edges = self._matrix.tocoo()
        pairs = np.stack(edges.coords).astype("<i8")[:, edges.row != edges.col]
        digest = hashlib.blake2b(pairs.tobytes(), digest_size=16)
        return (self.n, digest.hexdigest())

    def fingerprint(self) -> bytes:
        digest = hashlib.blake2b(super().fingerprint(), digest_size=16)
        for part in (self._matrix.indptr, self._matrix.indices):
            digest.update(part.astype("<i8").tobytes())
        digest.update(self._matrix.data.astype("<f8").tobytes())
        return digest.digest()

    def entries(self) -> int:
        return int(self._matrix.nnz)

    def matrix(self) -> sp.csr_array:
        return self._matrix.copy()
