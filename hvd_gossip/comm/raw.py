"""Tensors as MPI sends them: plain bytes, for 16-bit floats have no MPI type everywhere."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hvd_gossip.comm import mpi as MPI


def raw(tensor: Tensor) -> Any:
    """The memory of a contiguous tensor as bytes that MPI takes; nothing is copied."""
    if tensor.is_cuda:
        return MPI.buffer.fromaddress(tensor.data_ptr(), tensor.nbytes)
    return tensor.detach().reshape(-1).view(torch.uint8).numpy()
