"""The centralized baseline as a mixer: its W is 11ᵀ/n."""

from __future__ import annotations

import torch
from torch import Tensor

from hvd_gossip import specification
from hvd_gossip.comm import global_mean
from hvd_gossip.comm.horovod_allreduce import HorovodMean
from hvd_gossip.comm.world import World
from hvd_gossip.mixing import Buffers, Compresses, Eager, Traffic

ALLREDUCE = ("horovod", "mpi")
"""Who carries the centralized baseline."""


class AllreduceMixer(Eager):
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
        self._world = world
        self._horovod = None
        if backend == "horovod":
            self._horovod = world.together(lambda: HorovodMean(world, wire), RuntimeError)

    def begin(self, round: int, epoch: int) -> None:
        """Every round is alike."""

    def mix(self, buffers: Buffers) -> None:
        global_mean.mean(self._world, buffers, self.traffic, self._horovod)

    def mean(self, buffers: Buffers) -> None:
        self.mix(buffers)

    def mean_of(self, value: Tensor) -> float:
        return global_mean.mean_of(self._world, value)

    def mix_compressed(self, buffers: Buffers, compressor: Compresses, seed: int) -> tuple[list[Tensor], list[Tensor]]:
        raise ValueError("an allreduce has no neighbours to send compressed vectors to: use a graph")

    def self_weight(self) -> float:
        return 1 / self.size

    def free(self) -> None:
        """Nothing is held: Horovod stops with the process."""
