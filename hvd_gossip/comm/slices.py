"""Vectors that all ranks of a job hold in one memory, averaged slice by slice: each rank computes one slice for all.

`X[:, slice] <- W X[:, slice]`, with W whole and `X` the vectors of all ranks: every value is read from memory once,
whatever the degree, where a rank that computes its own row reads one vector more for each neighbour. In turn all ranks
wait for all others, before and after. The sums are those of the rows, bit for bit.
"""

from __future__ import annotations

import torch

from hvd_gossip.comm.neighbor import combine, pieces
from hvd_gossip.comm.shared import SharedVectors
from hvd_gossip.graphs import Topology
from hvd_gossip.mixing import rounded, wire_dtype

CACHE_BYTES = 4 << 20
"""A piece of all vectors together fits into a cache of this size."""
LEAST_PIECE = 128 << 10
"""Bytes of a piece below which calls cost more than memory."""
LEAST_VECTORS = 16 << 20
"""Bytes of all vectors of a rank below which waiting costs more than memory."""


def pay(vectors: SharedVectors, topology: Topology) -> bool:
    """Whether slices are quicker than rows, by what is the same on every rank."""
    large = vectors.nbytes >= LEAST_VECTORS and CACHE_BYTES // (topology.n + 1) >= LEAST_PIECE
    return large and topology.entries() >= 3 * topology.n


def average(vectors: SharedVectors, rank: int, index: int, topology: Topology, wire: torch.dtype | None) -> None:
    """`W x` of all ranks for this rank's slice of the vector of this index, into their other places."""
    ranks = range(topology.n)
    length, kind = len(vectors.current(rank, index)), vectors.current(rank, index).dtype
    part = slice(length * rank // topology.n, length * (rank + 1) // topology.n)
    wire = wire_dtype(kind, wire)
    piece = CACHE_BYTES // (topology.n + 1) // kind.to_real().itemsize
    held = zip(*(pieces(vectors.current(of, index)[part], piece) for of in ranks), strict=True)
    results = zip(*(pieces(vectors.other(of, index)[part], piece) for of in ranks), strict=True)
    rows = [topology.row(of) for of in ranks]
    heard = [row.sources.tolist() for row in rows]
    for own, out in zip(held, results, strict=True):
        seen = [rounded(values, wire) for values in own]
        for of in ranks:
            combine(out[of], own[of], rows[of], [seen[source] for source in heard[of]], wire)
