"""Mixers over MPI: this rank's row of W(t) for gossip, 11ᵀ/n for the centralized baseline."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from hvd_gossip import specification
from hvd_gossip.comm import allreduce
from hvd_gossip.comm.dist_graph import DistGraphs
from hvd_gossip.comm.horovod_allreduce import HorovodMean
from hvd_gossip.comm.neighbor import CHUNK_BYTES, NeighborAverage
from hvd_gossip.comm.world import World
from hvd_gossip.graphs import Row, Schedule, Topology
from hvd_gossip.graphs.schedules import fingerprint
from hvd_gossip.mixing import Buffers, Traffic

ALLREDUCE = ("horovod", "mpi")
"""Who carries the centralized baseline."""


@contextmanager
def timed(traffic: Traffic) -> Iterator[None]:
    """Count the seconds spent inside."""
    begin = time.perf_counter()
    try:
        yield
    finally:
        traffic.seconds += time.perf_counter() - begin


class NeighborMixer:
    """`x_i <- sum_j W[i, j](t) x_j` by neighborhood collectives on a graph communicator that follows the schedule.

    Args:
        world: the ranks.
        schedule: round -> graph, made for as many replicas.
        chunk_bytes: at most so many bytes go to one neighbour in one call.

    Raises:
        ValueError: on every rank, when the schedule is for another number of ranks or differs between ranks.
    """

    def __init__(self, world: World, schedule: Schedule, chunk_bytes: int = CHUNK_BYTES) -> None:
        world.raise_together(
            None
            if schedule.n == world.size
            else f"graph {schedule.name!r} is made for {schedule.n} replicas, but this job has {world.size} ranks"
        )
        world.agree("the graph", schedule.name)
        world.agree(f"graph {schedule.name!r}: what its edges and weights come to", fingerprint(schedule))
        self.size = world.size
        self.traffic = Traffic()
        self.schedule = schedule
        self.graphs = DistGraphs(world)
        self._rank = world.rank
        self._average = NeighborAverage(chunk_bytes)
        self._topology: Topology | None = None
        self._row: Row

    def begin(self, round: int, epoch: int) -> None:
        """Look the graph of this round up, and build its communicator if it is new."""
        topology = self.schedule(round, epoch)
        if topology is self._topology:
            return
        with timed(self.traffic):
            if self.size > 1:
                self.graphs[topology]
            self._topology, self._row = topology, topology.row(self._rank)

    def mix(self, buffers: Buffers) -> None:
        if self.size == 1 or self._topology is None:
            return
        with timed(self.traffic):
            graph = self.graphs[self._topology]
            for buffer in buffers:
                messages = self._average(graph, self._row, buffer)
                degree = len(self._row.destinations)
                self.traffic.bytes += degree * buffer.nbytes
                self.traffic.messages += degree * messages

    def free(self) -> None:
        """Free the graph communicators."""
        self.graphs.free()


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

    def begin(self, round: int, epoch: int) -> None:
        """Every round is alike."""

    def mix(self, buffers: Buffers) -> None:
        if self.size == 1:
            return
        with timed(self.traffic):
            for index, buffer in enumerate(buffers):
                if self._horovod is None:
                    allreduce.mean_(self._comm, buffer)
                else:
                    self._horovod(buffer, index)
                self.traffic.bytes += 2 * (self.size - 1) * buffer.nbytes // self.size
                self.traffic.messages += 2 * (self.size - 1)

    def free(self) -> None:
        """Nothing is held: Horovod stops with the process."""
