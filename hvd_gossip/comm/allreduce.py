"""Sum or mean of a tensor over all ranks, by MPI's own allreduce, in chunks whose counts never wrap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hvd_gossip.comm import mpi as MPI
from hvd_gossip.mixing import accumulation_dtype

if TYPE_CHECKING:
    from mpi4py.MPI import Comm

CHUNK_BYTES = 64 << 20
"""Bytes reduced in one call."""


def sum_(comm: Comm, tensor: Tensor, chunk_bytes: int = CHUNK_BYTES) -> Tensor:
    """`x <- sum_i x_i` in place; 16-bit floats are summed in float32 and rounded once.

    Args:
        comm: the ranks that take part.
        tensor: any shape, any dtype; the same on every rank.
        chunk_bytes: at most so many bytes are reduced in one call.
    """
    return reduce_(comm, tensor, 1, chunk_bytes)


def mean_(comm: Comm, tensor: Tensor, chunk_bytes: int = CHUNK_BYTES) -> Tensor:
    """`x <- sum_i x_i / n` in place; 16-bit floats are summed and divided in float32 and rounded once.

    Integers are divided with rounding towards minus infinity.

    Args:
        comm: the n ranks that take part.
        tensor: any shape, any dtype but bool; the same on every rank.
        chunk_bytes: at most so many bytes are reduced in one call.
    """
    return reduce_(comm, tensor, comm.Get_size(), chunk_bytes)


def reduce_(comm: Comm, tensor: Tensor, divisor: int, chunk_bytes: int) -> Tensor:
    """`x <- sum_i x_i / divisor` in place."""
    if comm.Get_size() == 1:
        return tensor
    dtype = torch.int64 if tensor.dtype == torch.bool else accumulation_dtype(tensor.dtype)
    work = torch.empty_like(tensor, dtype=dtype, device="cpu", memory_format=torch.contiguous_format).copy_(tensor)
    values = torch.view_as_real(work).view(-1) if work.is_complex() else work.view(-1)
    # A rank without elements still has nothing to say: the shape is the same everywhere.
    for chunk in values.split(max(1, chunk_bytes // values.element_size())) if values.numel() else ():
        comm.Allreduce(MPI.IN_PLACE, chunk.numpy(), op=MPI.SUM)
    if divisor != 1:
        work = work.div_(divisor) if work.dtype.is_floating_point or work.is_complex() else work // divisor
    return tensor.copy_(work)
