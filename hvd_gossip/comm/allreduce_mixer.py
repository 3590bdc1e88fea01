"""The centralized baseline as a mixer: its W is 11ᵀ/n."""

from __future__ import annotations

import torch

from hvd_gossip import specification
from hvd_gossip.comm import allreduce
from hvd_gossip.comm.horovod_allreduce import HorovodMean
from hvd_gossip.comm.world import World
from hvd_gossip.mixing import Buffers, Settling, Traffic

ALLREDUCE = ("horovod", "mpi")
"""Who carries the centralized baseline."""


class AllreduceMixer:
    r"""`x <- 11^T/n x`: the exact mean over all ranks, whatever the round.

    Bytes and messages are those of a ring allreduce, the least that any allreduce can send: `2 (n - 1)/n` of the
    buffer and `2 (n - 1)` messages for each rank.

    Args:
        world: the ranks.
        backend: "horovod", or "mpi" for MPI's own allreduce.
        wire: None, or torch.float16 for half-precision sums by Horovod.

    Raises:
        ValueError: unknown backend, or a wire format that it does not have.
        RuntimeError: Horovod cannot be used here.
    """

    def __init__(self, world: World, backend: str = "horovod", wire: torch.dtype | None = None) -> None:
        specification.choose("allreduce", backend, ALLREDUCE)
        if backend == "mpi" and wire is not None:
            raise ValueError(f"got wire = {wire} with allreduce='mpi': only Horovod sums 16-bit floats; use 'horovod'")
        self.size = world.size
        self.traffic = Traffic()
        self._comm = world.comm
        self._horovod = None
        if backend == "horovod":
            self._horovod = world.together(lambda: HorovodMean(world, wire), RuntimeError)

    def settle(self, parameters: Settling, overlap: bool = False) -> None:
        """There is no better place."""

    def begin(self, round: int, epoch: int) -> None:
        """Every round is alike."""

    def start(self, buffers: Buffers) -> None:
        """Nothing goes on ahead of `mix`."""

    def arrived(self, buffer: int, length: int) -> bool:
        """Nothing goes on ahead of `mix`."""
        return False

    def forget(self) -> None:
        """Nothing has been started."""

    def mix(self, buffers: Buffers) -> None:
        if self.size == 1:
            return
        with self.traffic.timed():
            for index, buffer in enumerate(buffers):
                if self._horovod is None:
                    allreduce.mean_(self._comm, buffer)
                else:
                    self._horovod(buffer, index)
                self.traffic.bytes += 2 * (self.size - 1) * buffer.nbytes // self.size
                self.traffic.messages += 2 * (self.size - 1)

    def free(self) -> None:
        """Nothing is held: Horovod stops with the process."""
