"""Vectors of an accelerator on their way to MPI: handed over as they are, or through main memory.

An MPI that is aware of CUDA reads and writes the memory of a device. For any other, values go through page-locked main
memory on a stream beside the one that computes.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor

from hvd_gossip.comm import mpi as MPI

VARIABLE = "HVD_GOSSIP_CUDA_AWARE"


@cache
def cuda_aware() -> bool:
    """Whether MPI takes memory of a CUDA device: as the environment variable says, or as MPI does.

    Raises:
        ValueError: the environment variable is neither 0 nor 1.
    """
    told = os.environ.get(VARIABLE)
    if told is None:
        return asks_mpi()
    if told not in ("0", "1"):
        raise ValueError(f"got {VARIABLE} = {told!r}: expected 1 for an MPI that takes CUDA memory, or 0")
    return told == "1"


def asks_mpi() -> bool:
    """What the MPI library says of itself, where it has the question of Open MPI and MPICH."""
    try:
        query = ctypes.CDLL(MPI.__spec__.origin).MPIX_Query_cuda_support
    except (OSError, AttributeError):
        return False
    return bool(query())


def elsewhere(vector: Tensor) -> bool:
    """Whether a vector lies outside of main memory."""
    return vector.device.type != "cpu"


def direct(vector: Tensor) -> bool:
    """Whether MPI takes a vector where it lies."""
    return not elsewhere(vector) or (vector.is_cuda and cuda_aware())


def wait_for_values(vector: Tensor) -> None:
    """Wait until what a stream has been told to do is done: MPI reads memory, and knows no streams."""
    if vector.is_cuda:
        torch.cuda.current_stream(vector.device).synchronize()


class Staging:
    """Main memory for vectors that MPI cannot take where they lie; it is kept from call to call.

    Memory: as much page-locked main memory as the largest vector.

    Example:
        >>> x = torch.ones(3)
        >>> with Staging()(x) as values:  # main memory already
        ...     values is x
        True
    """

    def __init__(self) -> None:
        self._spaces: dict[tuple[torch.device, torch.dtype], Tensor] = {}
        self._streams: dict[torch.device, Any] = {}

    @contextmanager
    def __call__(self, vector: Tensor, out: Tensor | None = None, anyway: bool = False) -> Iterator[Tensor]:
        """The values of a vector in memory that MPI takes; what is there in the end becomes the values of `out`.

        Args:
            vector: contiguous, on any device.
            out: another like it (default: the vector itself).
            anyway: go through main memory also where MPI would take the vector as it is.
        """
        if not elsewhere(vector) or (direct(vector) and not anyway):
            yield vector
            return
        with self._beside(vector):
            values = self._space(vector)
            values.copy_(vector, non_blocking=True)
            wait_for_values(vector)
        yield values
        with self._beside(vector):
            (vector if out is None else out).copy_(values, non_blocking=True)
            wait_for_values(vector)

    def _space(self, vector: Tensor) -> Tensor:
        key = (vector.device, vector.dtype)
        if key not in self._spaces or len(self._spaces[key]) < vector.numel():
            pinned = vector.is_cuda and torch.cuda.is_available()
            self._spaces[key] = torch.empty(vector.numel(), dtype=vector.dtype, pin_memory=pinned)
        return self._spaces[key][: vector.numel()]

    def _beside(self, vector: Tensor) -> Any:
        """The stream for copies, which begins where the one that computes is now."""
        if not vector.is_cuda:
            return nullcontext()
        if vector.device not in self._streams:
            self._streams[vector.device] = torch.cuda.Stream(vector.device)
        stream = self._streams[vector.device]
        stream.wait_stream(torch.cuda.current_stream(vector.device))
        return torch.cuda.stream(stream)
