"""Vectors that travel compressed: each rank sends the bytes of C(x) and adds up what its neighbours' bytes mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hvd_gossip.comm.chunks import CHUNK_BYTES
from hvd_gossip.comm.messages import Messages
from hvd_gossip.comm.watchdog import Whom
from hvd_gossip.graphs import Row
from hvd_gossip.mixing import Compresses, accumulation_dtype

if TYPE_CHECKING:
    from mpi4py.MPI import Distgraphcomm


class CompressedAverage:
    """`W C(x)` for this rank's row, where the bytes of C(x) travel.

    Args:
        chunk_bytes: at most so many bytes go to one neighbour in one call.

    Memory: the bytes of each neighbour that is heard, and two vectors.
    """

    def __init__(self, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.chunk_bytes, self._messages = chunk_bytes, Messages()

    @property
    def waited(self) -> float:
        """Seconds spent waiting for messages so far."""
        return self._messages.waited

    def __call__(
        self, graph: Distgraphcomm, row: Row, x: Tensor, compressor: Compresses, seed: int, whom: Whom
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The bytes of C(x), C(x), and `sum_j W[i, j] C(x_j)` in float32 or better.

        Args:
            graph: the communicator whose neighbours are those of `row`.
            row: weights of this rank.
            x: contiguous vector in main memory; stays as it is.
            compressor: C.
            seed: the same on all ranks for this round and vector.
            whom: says for whom a message waits.
        """
        payload = compressor.encode(x, seed)
        own = compressor.decode(payload, torch.empty_like(x), seed)
        total = own.to(accumulation_dtype(x.dtype)) * row.self_weight
        heard = torch.empty_like(x)
        everyone = self._exchange(graph, row, payload, whom)
        for weight, received in zip(row.source_weights.tolist(), everyone, strict=True):
            total.add_(compressor.decode(received, heard, seed).to(total.dtype), alpha=weight)
        return payload, own, total

    def _exchange(self, graph: Distgraphcomm, row: Row, payload: Tensor, whom: Whom) -> list[Tensor]:
        """The bytes of every rank that is heard."""
        degree, chunks = len(row.sources), payload.split(self.chunk_bytes) if len(payload) else ()
        everyone = torch.empty(degree, len(payload), dtype=torch.uint8)
        begin = 0
        for received in self._messages(graph, degree, chunks, torch.uint8, whom):
            everyone[:, begin : begin + received.shape[1]] = received
            begin += received.shape[1]
        return list(everyone)
