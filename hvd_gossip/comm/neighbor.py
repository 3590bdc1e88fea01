"""The weighted average of one flat buffer with the neighbours of a graph, by a neighborhood collective.

`x_i <- W[i, i] x_i + sum_j W[i, j] x_j`
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hvd_gossip.comm import mpi as MPI
from hvd_gossip.comm.world import ranks_text
from hvd_gossip.graphs import Row
from hvd_gossip.mixing import accumulation_dtype

if TYPE_CHECKING:
    from mpi4py.MPI import Distgraphcomm, Request

CHUNK_BYTES = 1 << 20
"""Bytes exchanged in one call: received rows are still in cache when they are added, and counts stay far below 2^31."""

STALL_SECONDS = float(os.environ.get("HVD_GOSSIP_STALL_SECONDS", "60"))
"""Seconds after which a rank that waits says for whom."""


class NeighborAverage:
    """Averages buffers chunk by chunk; the next chunk travels while the last one is added.

    Args:
        chunk_bytes: at most so many bytes go to one neighbour in one call.

    Memory: two chunks for each neighbour that is heard, whatever the size of the buffer.
    """

    def __init__(self, chunk_bytes: int = CHUNK_BYTES) -> None:
        if chunk_bytes < 16:
            raise ValueError(f"got chunk_bytes = {chunk_bytes}, expected at least 16 (one complex number)")
        self.chunk_bytes = chunk_bytes
        self._received: dict[int, Tensor] = {}

    def __call__(self, graph: Distgraphcomm, row: Row, buffer: Tensor) -> int:
        """`x <- W x` in place for this rank's row; returns how many messages each neighbour was sent.

        Args:
            graph: the communicator whose neighbours are those of `row`, in the same order.
            row: weights of this rank.
            buffer: one-dimensional, contiguous, any floating or complex dtype; sums are taken in float32 or better.

        Raises:
            ValueError: the buffer is not a contiguous vector of floating-point numbers.
        """
        check_buffer(buffer)
        if buffer.is_cuda:
            staged = buffer.to("cpu")
            messages = self(graph, row, staged)
            buffer.copy_(staged)
            return messages
        values = torch.view_as_real(buffer).flatten() if buffer.is_complex() else buffer
        chunks = values.split(max(1, self.chunk_bytes // values.element_size())) if values.numel() else ()
        pending: tuple[Request, Tensor, Tensor] | None = None
        for index, chunk in enumerate(chunks):
            received = self._space(index % 2, len(row.sources), chunk)
            request = graph.Ineighbor_allgather(_bytes(chunk), _bytes(received, chunk))
            if pending is not None:
                _finish(*pending, row)
            pending = (request, chunk, received)
        if pending is not None:
            _finish(*pending, row)
        return len(chunks)

    def _space(self, half: int, degree: int, chunk: Tensor) -> Tensor:
        """Room for what `degree` neighbours send, shape [degree, len(chunk)], reused from call to call."""
        needed = degree * chunk.numel() * chunk.element_size()
        if half not in self._received or self._received[half].numel() < needed:
            self._received[half] = torch.empty(needed, dtype=torch.uint8)
        return self._received[half][:needed].view(chunk.dtype).view(degree, chunk.numel())


def check_buffer(buffer: Tensor) -> None:
    """Refuse what cannot be averaged in place."""
    if buffer.dim() != 1 or not buffer.is_contiguous() or not (buffer.is_floating_point() or buffer.is_complex()):
        raise ValueError(
            f"got a buffer of shape {tuple(buffer.shape)}, {buffer.dtype}: expected a contiguous vector of floats"
        )


def _bytes(tensor: Tensor, per_neighbor: Tensor | None = None) -> list:
    """An mpi4py buffer of plain bytes with an explicit count: 16-bit floats have no MPI type everywhere."""
    count = (tensor if per_neighbor is None else per_neighbor).nbytes
    return [tensor.detach().reshape(-1).view(torch.uint8).numpy(), count, MPI.BYTE]


def _finish(request: Request, chunk: Tensor, received: Tensor, row: Row) -> None:
    """Wait for the neighbours' chunks and add them with their weights, in the order of the sources."""
    wait(request, lambda: f"one of ranks {ranks_text(sorted({*row.sources.tolist(), *row.destinations.tolist()}))}")
    dtype = accumulation_dtype(chunk.dtype)
    total = chunk.to(dtype).mul_(row.self_weight) if dtype != chunk.dtype else chunk.mul_(row.self_weight)
    for weight, neighbor in zip(row.source_weights.tolist(), received, strict=True):
        total.add_(neighbor.to(dtype), alpha=weight)
    if total is not chunk:
        chunk.copy_(total)


def wait(request: Request, whom: Callable[[], str], spins: int = 50, nap: float = 5e-5, longest: float = 1e-3) -> None:
    """Wait without stealing the core from a rank that computes: test a few times, then sleep in between.

    After `STALL_SECONDS` it warns once and goes on waiting.
    """
    for _ in range(spins):
        if request.Test():
            return
    begin, limit = time.monotonic(), STALL_SECONDS
    while not request.Test():
        time.sleep(nap)
        nap = min(2 * nap, longest)
        if time.monotonic() - begin > limit:
            rank, limit = MPI.COMM_WORLD.Get_rank(), math.inf
            sys.stderr.write(
                f"rank {rank} has waited {time.monotonic() - begin:.0f} s for {whom()}: have all ranks the same number "
                "of steps and the same trained parameters, or has one ended?\n"
            )
            sys.stderr.flush()
