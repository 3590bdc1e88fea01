"""Mixers over MPI: this rank's row of W(t) for gossip, 11ᵀ/n for the centralized baseline."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

import torch

from hvd_gossip import specification
from hvd_gossip.comm import allreduce
from hvd_gossip.comm.dist_graph import DistGraphs
from hvd_gossip.comm.horovod_allreduce import HorovodMean
from hvd_gossip.comm.near import NearVectors, fingerprint_of, wanted
from hvd_gossip.comm.neighbor import CHUNK_BYTES, NeighborAverage
from hvd_gossip.comm.world import World, ranks_text
from hvd_gossip.graphs import Row, Schedule, Topology
from hvd_gossip.graphs.schedules import fingerprint
from hvd_gossip.mixing import Buffers, Settling, Traffic

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

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
    """`x_i <- sum_j W[i, j](t) x_j` on graphs that follow the schedule.

    Parameters that have been settled are read by near neighbours, those on the same node, where they are. All else
    travels by neighborhood collectives on graph communicators.

    Args:
        world: the ranks.
        schedule: round -> graph, made for as many replicas.
        chunk_bytes: at most so many bytes go to one neighbour in one call.
        shared_memory: whether near neighbours read each other's memory (default: the environment variable
            HVD_GOSSIP_SHARED_MEMORY, or yes).
        node: the ranks that are near to this one (default: those that share its memory).

    Raises:
        ValueError: on every rank, when the schedule is for another number of ranks or differs between ranks.
    """

    def __init__(
        self,
        world: World,
        schedule: Schedule,
        chunk_bytes: int = CHUNK_BYTES,
        shared_memory: bool | None = None,
        node: Intracomm | None = None,
    ) -> None:
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
        self._world = world
        self._near = NearVectors(world, chunk_bytes, node) if wanted(shared_memory) else None
        self.graphs = DistGraphs(world)
        self._average = NeighborAverage(chunk_bytes)
        self._topology: Topology | None = None
        self._row: Row
        self._round = self._epoch = 0
        self._row_of = lru_cache(maxsize=4)(lambda topology: topology.row(world.rank))

    def settle(self, parameters: Settling) -> None:
        """Move parameters to memory that the ranks of this node share."""
        if self._near is not None and self.size > 1:
            self._near.settle(parameters)

    def begin(self, round: int, epoch: int) -> None:
        """Look the graph of this round up."""
        self._round, self._epoch = round, epoch
        topology = self.schedule(round, epoch)
        if topology is not self._topology:
            with timed(self.traffic):
                self._topology, self._row = topology, self._row_of(topology)

    def _prepare(self) -> None:
        """Make the graph of the next round ready, unless it follows from the epoch that comes then."""
        if self.schedule.period != 1:
            with contextlib.suppress(Exception):  # what does not work is told when that round comes
                topology = self.schedule(self._round + 1, self._epoch)
                self._row_of(topology)
                fingerprint_of(topology)

    def mix(self, buffers: Buffers) -> None:
        if self.size == 1 or self._topology is None:
            return
        with timed(self.traffic):
            degree = len(self._row.destinations)
            if self._near is not None and self._near.holds(buffers):
                messages = self._near.mix(self._topology, self._row, self._whom, self._prepare)
            else:
                graph = self.graphs[self._topology]
                messages = sum(self._average(graph, self._row, buffer, whom=self._whom) for buffer in buffers)
            self.traffic.bytes += degree * sum(buffer.nbytes for buffer in buffers)
            self.traffic.messages += degree * messages

    def _whom(self, rank: int | None = None) -> str:
        """For whom this rank waits in this round, and on which graph."""
        ranks = [rank] if rank is not None else sorted({*self._row.sources.tolist(), *self._row.destinations.tolist()})
        who = f"rank {rank}" if len(ranks) == 1 else f"one of ranks {ranks_text(ranks)}"
        return f"{who} in round {self._round} of graph {self._topology.name if self._topology else ''!r}"

    def free(self) -> None:
        """Free the graph communicators."""
        self.graphs.free()
        if self._near is not None:
            self._near.free()


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

    def settle(self, parameters: Settling) -> None:
        """There is no better place."""

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
