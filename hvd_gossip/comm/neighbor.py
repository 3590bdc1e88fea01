"""The weighted average of one flat vector with the neighbours of a graph, chunk by chunk.

`x_i <- W[i, i] x_i + sum_j W[i, j] x_j`

What neighbours far away hold comes by a neighborhood collective; what near ones hold is read where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hvd_gossip.comm.chunks import CHUNK_BYTES, LEAST_BYTES
from hvd_gossip.comm.messages import Messages
from hvd_gossip.comm.staging import Staging, direct
from hvd_gossip.comm.watchdog import NEIGHBOURS, Whom
from hvd_gossip.graphs import Row
from hvd_gossip.mixing import accumulation_dtype, rounded, wire_dtype

if TYPE_CHECKING:
    from mpi4py.MPI import Distgraphcomm


class NeighborAverage:
    """Averages vectors; the next chunk travels while the last one is added.

    Args:
        chunk_bytes: at most so many bytes go to one neighbour in one call.
        wire: to what values are rounded that neighbours see, or None for not at all.

    Memory: 2 MiB for each neighbour that is heard by messages, whatever the size of the vector.
    """

    def __init__(self, chunk_bytes: int = CHUNK_BYTES, wire: torch.dtype | None = None) -> None:
        if chunk_bytes < LEAST_BYTES:
            raise ValueError(f"got chunk_bytes = {chunk_bytes}, expected at least {LEAST_BYTES} (one complex number)")
        self.chunk_bytes, self.wire = chunk_bytes, wire
        self._messages, self._staging = Messages(), Staging()

    @property
    def waited(self) -> float:
        """Seconds spent waiting for messages so far."""
        return self._messages.waited

    def __call__(
        self,
        graph: Distgraphcomm | None,
        row: Row,
        buffer: Tensor,
        out: Tensor | None = None,
        near: Mapping[int, Tensor] | None = None,
        whom: Whom = NEIGHBOURS,
        reach: Callable[[int], None] = lambda length: None,
    ) -> int:
        """`out <- W x` for this rank's row; returns how many messages each far neighbour was sent.

        Args:
            graph: the communicator whose neighbours are those of `row` that are not near, in the same order; None where
                there is none on any rank.
            row: weights of this rank.
            buffer: x, one-dimensional, contiguous, any floating or complex dtype; sums are taken in float32 or better.
            out: where the result goes, another vector like x (default: x itself).
            near: what near neighbours hold, by rank.
            whom: says for whom a message waits.
            reach: is told how many values of `out` are there, whenever some have come.

        Raises:
            ValueError: the buffer is not a contiguous vector of floating-point numbers.
        """
        check_buffer(buffer)
        if not direct(buffer):
            with self._staging(buffer, out) as values:
                messages = self(graph, row, values, whom=whom)
            reach(len(buffer))
            return messages
        near = near or {}
        wire = wire_dtype(buffer.dtype, self.wire)
        length = max(1, self.chunk_bytes // wire.itemsize)
        chunks, results = (pieces(vector, length) for vector in (buffer, buffer if out is None else out))
        held = {rank: pieces(vector, length) for rank, vector in near.items()}
        far = len(row.sources) - len(near)
        arrivals: Iterable[Iterable[Tensor]] = ((),) * len(chunks)
        if graph:
            arrivals = self._messages(graph, far, chunks, wire, whom)
        for index, received in enumerate(arrivals):
            arrived = iter(received)
            parts = [
                rounded(held[rank][index], wire) if rank in held else next(arrived) for rank in row.sources.tolist()
            ]
            combine(results[index], chunks[index], row, parts, wire)
            reach((index + 1) * length // (2 if buffer.is_complex() else 1))
        return len(chunks)


def pieces(vector: Tensor, length: int) -> Sequence[Tensor]:
    """A vector in chunks of so many numbers; of a complex one, real and imaginary parts in turn."""
    values = torch.view_as_real(vector).flatten() if vector.is_complex() else vector
    if values.numel() > length:
        return values.split(length)
    return (values,) if values.numel() else ()


def check_buffer(buffer: Tensor) -> None:
    """Refuse what cannot be averaged in place."""
    if buffer.dim() != 1 or not buffer.is_contiguous() or not (buffer.is_floating_point() or buffer.is_complex()):
        raise ValueError(
            f"got a buffer of shape {tuple(buffer.shape)}, {buffer.dtype}: expected a contiguous vector of floats"
        )


def combine(out: Tensor, own: Tensor, row: Row, parts: Sequence[Tensor], wire: torch.dtype) -> None:
    """One chunk of `W x`, of parts that have been rounded to `wire`."""
    (weighted_sum if wire == own.dtype else weighted_differences)(out, own, row, parts)


def weighted_sum(out: Tensor, own: Tensor, row: Row, parts: Sequence[Tensor]) -> None:
    """`out <- W[i, i] own + sum_j W[i, j] part_j`, in the order of the sources; `out` may be `own`."""
    weights = [row.self_weight, *row.source_weights.tolist()]
    dtype = accumulation_dtype(own.dtype)
    total = out if dtype == own.dtype else torch.empty_like(out, dtype=dtype)
    result = (running_mean if min(weights) >= 0 else running_sum)(total, weights, [own, *parts])
    if result is not out:
        out.copy_(result)


def weighted_differences(out: Tensor, own: Tensor, row: Row, parts: Sequence[Tensor]) -> None:
    """`out <- own + sum_j W[i, j] (part_j - Q(own))`, with Q the rounding that the parts have gone through.

    Were the parts averaged as they are, every round would draw replicas that agree towards rounded values.
    """
    weights = row.source_weights.tolist()
    dtype = accumulation_dtype(own.dtype)
    wire = parts[0].dtype if parts else own.dtype
    seen = rounded(own, wire).to(dtype)
    total = torch.mul(seen, row.self_weight + sum(weights) - 1)
    for weight, part in zip(weights, parts, strict=True):
        total.add_(part.to(dtype) - seen, alpha=weight)
    torch.add(own, total, out=out) if dtype == own.dtype else out.copy_(own.to(dtype) + total)


def running_mean(total: Tensor, weights: Sequence[float], terms: Sequence[Tensor]) -> Tensor:
    """`t <- t + w_j/(w_0 + … + w_j) (x_j - t)`: one pass less over memory than a sum, and equal terms stay as they are.

    Returns `total`, or the first term where that is all.
    """
    so_far, mean = weights[0], terms[0]
    for weight, term in zip(weights[1:], terms[1:], strict=True):
        so_far += weight
        if so_far:
            mean = torch.lerp(mean.to(total.dtype), term.to(total.dtype), weight / so_far, out=total)
    if abs(so_far - 1) > 1e-12 * len(weights):
        mean = torch.mul(mean.to(total.dtype), so_far, out=total)
    return mean


def running_sum(total: Tensor, weights: Sequence[float], terms: Sequence[Tensor]) -> Tensor:
    """`t <- t + w_j x_j`, for weights of any sign, whose partial sums may be zero."""
    torch.mul(terms[0].to(total.dtype), weights[0], out=total)
    for weight, term in zip(weights[1:], terms[1:], strict=True):
        total.add_(term.to(total.dtype), alpha=weight)
    return total
