"""Objects and tensors from one rank to all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hvd_gossip.comm import mpi as MPI

if TYPE_CHECKING:
    from mpi4py.MPI import Comm

CHUNK_BYTES = 64 << 20
"""Bytes sent in one call."""


def broadcast_(comm: Comm, tensor: Tensor, root: int, chunk_bytes: int = CHUNK_BYTES) -> Tensor:
    """Overwrite the tensor with that of rank `root`, bit for bit; shape and dtype are the same on every rank."""
    work = tensor.detach().to("cpu").contiguous()
    data = work.reshape(-1).view(torch.uint8) if work.numel() else torch.empty(0, dtype=torch.uint8)
    for chunk in data.split(chunk_bytes) if data.numel() else ():
        comm.Bcast([chunk.numpy(), chunk.numel(), MPI.BYTE], root=root)
    with torch.no_grad():
        if comm.Get_rank() != root and data.numel():
            tensor.copy_(data.view(tensor.dtype).view(tensor.shape))
    return tensor
