"""The mean of a flat buffer over all ranks by Horovod, the centralized baseline."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from torch import Tensor

from hvd_gossip.comm import mpi as MPI
from hvd_gossip.comm.world import World

WIRE_ON_CPU = (torch.float32, torch.float64)
"""What Horovod sums as it is; 16-bit floats would be summed in 16 bits, and bfloat16 not at all on a CPU."""

_users = 0


def installed() -> bool:
    """Whether Horovod can be found; it is not imported."""
    return importlib.util.find_spec("horovod") is not None


class HorovodMean:
    """`x <- sum_i x_i / n` in place.

    Args:
        world: the ranks; Horovod is started on them unless it runs already.
        wire: None, or torch.float16 to send half precision as Horovod's `Compression.fp16` does.

    Raises:
        RuntimeError: Horovod is not installed, runs on other ranks, or MPI's thread level is too low for it.
    """

    def __init__(self, world: World, wire: torch.dtype | None = None) -> None:
        global _users
        self._horovod = start(world)
        self._wire = wire
        # Horovod matches tensors by name; mixers are made in the same order on every rank.
        self._name = f"hvd_gossip.{_users}"
        _users += 1

    def __call__(self, buffer: Tensor, index: int) -> None:
        """Average one buffer; `index` tells the buffers of one mixer apart."""
        dtype = self._wire or (buffer.dtype if buffer.dtype in WIRE_ON_CPU else torch.float32)
        if buffer.is_complex():
            real = torch.view_as_real(buffer)
            self(real, index)
            return
        sent = buffer.to(dtype)
        self._horovod.allreduce_(sent, op=self._horovod.Average, name=f"{self._name}.{index}")
        if sent is not buffer:
            buffer.copy_(sent)


def start(world: World) -> Any:
    """Import Horovod and start it on the ranks of `world`; returns `horovod.torch`."""
    check_installed()
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise RuntimeError(
            f"Horovod talks to MPI from a thread of its own: MPI runs at thread level {MPI.Query_thread()}, expected "
            f"MPI_THREAD_MULTIPLE ({MPI.THREAD_MULTIPLE}). Do not lower mpi4py.rc.thread_level, or train with "
            "allreduce='mpi'"
        )
    import horovod.torch as horovod

    if not horovod.is_initialized():
        horovod.init() if world.covers_all else horovod.init(comm=world.comm)
    if (horovod.size(), horovod.rank()) != (world.size, world.rank):
        raise RuntimeError(
            f"Horovod runs as rank {horovod.rank()} of {horovod.size()}, but this communicator is rank {world.rank} "
            f"of {world.size}: start it with horovodrun --mpi or mpirun, not --gloo"
        )
    return horovod


def check_installed() -> None:
    """Refuse the baseline where Horovod is missing, and say what to do instead."""
    if not installed():
        raise RuntimeError(
            "the centralized baseline needs Horovod, which is not installed: run mpi_scripts/setup.sh, or "
            "`pip install hvd_gossip[horovod]` with a C++ compiler, CMake and MPI; or choose allreduce='mpi' to "
            "average by MPI's own allreduce"
        )
