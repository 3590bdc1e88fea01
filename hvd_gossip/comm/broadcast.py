"""Objects and tensors from one rank to all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hvd_gossip.comm import mpi as MPI
from hvd_gossip.comm.raw import raw

if TYPE_CHECKING:
    from mpi4py.MPI import Comm

CHUNK_BYTES = 64 << 20
"""Bytes sent in one call."""


def broadcast_(comm: Comm, tensor: Tensor, root: int, chunk_bytes: int = CHUNK_BYTES) -> Tensor:
    """Overwrite the tensor with that of rank `root`, bit for bit; shape and dtype are the same on every rank."""
    work = tensor.detach().to("cpu").contiguous()
    data = raw(work)
    for begin in range(0, len(data), chunk_bytes):
        chunk = data[begin : begin + chunk_bytes]
        comm.Bcast([chunk, len(chunk), MPI.BYTE], root=root)
    with torch.no_grad():
        if comm.Get_rank() != root:
            tensor.copy_(work)
    return tensor
