"""Gossip over MPI: this rank's row of W(t)."""

from __future__ import annotations

import contextlib
from concurrent.futures import Future
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hvd_gossip.comm import background, chunks, global_mean
from hvd_gossip.comm.background import Background, Progress
from hvd_gossip.comm.compressed import CompressedAverage
from hvd_gossip.comm.dist_graph import DistGraphs
from hvd_gossip.comm.neighbor import NeighborAverage
from hvd_gossip.comm.settled import SettledVectors, wanted
from hvd_gossip.comm.watchdog import Whom
from hvd_gossip.comm.world import World
from hvd_gossip.graphs import Row, Schedule, Topology
from hvd_gossip.graphs.schedules import fingerprint
from hvd_gossip.mixing import Buffers, Compresses, Settling, Traffic, wire_dtype

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


class NeighborMixer:
    """`x_i <- sum_j W[i, j](t) x_j` on graphs that follow the schedule.

    Parameters that have been settled are read by near neighbours, those on the same node, where they are. All else
    travels by neighborhood collectives on graph communicators.

    Args:
        world: the ranks.
        schedule: round -> graph, made for as many replicas.
        wire: to what values are rounded that neighbours see: torch.bfloat16, torch.float16, or None for not at all.
            `x_i <- x_i + sum_j W[i, j] (Q(x_j) - Q(x_i))`: the mean over all replicas stays, and equal replicas too.
        chunk_bytes: at most so many bytes go to one neighbour in one call (default: by what lies between the ranks).
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
        wire: torch.dtype | None = None,
        chunk_bytes: int | None = None,
        shared_memory: bool | None = None,
        node: Intracomm | None = None,
    ) -> None:
        check_schedule(world, schedule)
        self.size, self._rank = world.size, world.rank
        self.traffic = Traffic()
        self.schedule = schedule
        self._wire = wire
        self._world, chunk_bytes = world, chunk_bytes or chunks.chunk_bytes(world)
        self._average, self._compressed = NeighborAverage(chunk_bytes, wire), CompressedAverage(chunk_bytes)
        shared = world.together(lambda: wanted(shared_memory))
        self._settled = SettledVectors(world, self._average, (node or world.node) if shared else None)
        self.graphs = DistGraphs(world)
        self._background = Background()
        self._pending: Future | None = None
        self._progress = Progress()
        self._prepared: Future | None = None
        self._topology: Topology | None = None
        self._row: Row
        self._round = self._epoch = self._mixes = 0
        self._name = world.name("mixer")
        world.own(self.free)

    def settle(self, parameters: Settling, overlap: bool = False) -> None:
        """Move parameters to where they are mixed at the least cost; `start` needs `overlap`."""
        if self.size > 1:
            self.forget()
            self._join()
            self._settled.settle(parameters, anyway=overlap)

    def begin(self, round: int, epoch: int) -> None:
        """Look the graph of this round up.

        Raises:
            ValueError: an exchange of another round or epoch is under way.
        """
        if self._pending is not None:
            check_pending((self._round, self._epoch), (round, epoch))
            return
        self._round, self._epoch = round, epoch
        with self.traffic.timed():
            self._join()
            self._mixes += 1
            topology = self.schedule(round, epoch)
            if topology is not self._topology:
                self._topology, self._row = topology, topology.row(self._rank)

    def start(self, buffers: Buffers) -> None:
        """Let `mix` of these buffers go on from now: until it is called they may be read, but not be changed.

        Without settled parameters, or where MPI may not be called from a second thread, `mix` does it all.
        """
        if self._pending is None and self._settled.holds(buffers) and background.allowed():
            self._join()
            self._progress = progress = Progress()
            what = (self._settled.mix, self._topology, self._row, self._whom(), progress)
            self._pending = self._background.submit(progress.run, *what)

    def arrived(self, buffer: int, length: int) -> bool:
        """Wait until what `start` goes on with has written so many values of this buffer; False if nothing goes on."""
        with self.traffic.timed():
            return self._pending is not None and self._progress.wait(buffer, length)

    def forget(self) -> None:
        """Let what `start` has begun end, here and where this rank is read, and change nothing."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()
            self._settled.quiesce(self._whom())

    def mix(self, buffers: Buffers) -> None:
        if self.size == 1 or self._topology is None:
            return
        settled = self._settled.holds(buffers)
        with self.traffic.timed():
            messages = self._mix_settled() if settled else self._mix_messages(buffers)
        widths = (wire_dtype(buffer.dtype, self._wire).itemsize for buffer in buffers)
        self._count(sum(b.numel() * width for b, width in zip(buffers, widths, strict=True)), messages)
        self._prepare(self._settled.graphs if settled else self.graphs)

    def mean(self, buffers: Buffers) -> None:
        self._join()
        global_mean.mean(self._world, buffers, self.traffic)

    def mean_of(self, value: Tensor) -> float:
        self._join()
        return global_mean.mean_of(self._world, value)

    def mix_compressed(self, buffers: Buffers, compressor: Compresses, seed: int) -> tuple[list[Tensor], list[Tensor]]:
        assert self._topology is not None
        with self.traffic.timed():
            self._join()
            graph, row, whom = self.graphs[self._topology], self._row, self._whom()
            found = [self._compressed(graph, row, b.cpu(), compressor, seed + i, whom) for i, b in enumerate(buffers)]
        sizes = [len(payload) for payload, _, _ in found]
        pieces = sum(-(-size // self._compressed.chunk_bytes) for size in sizes)
        self._count(sum(sizes), len(row.destinations) * pieces)
        pairs = zip(found, buffers, strict=True)
        own, mixed = zip(*((c.to(b.device), m.to(b.device)) for (_, c, m), b in pairs), strict=True)
        return list(own), list(mixed)

    def self_weight(self) -> float:
        return self._row.self_weight

    def _mix_settled(self) -> int:
        assert self._topology is not None
        pending, self._pending = self._pending, None
        if pending is not None:
            messages = pending.result()
        else:
            self._join()
            messages = self._settled.mix(self._topology, self._row, self._whom())
        self._settled.turn()
        return messages

    def _mix_messages(self, buffers: Buffers) -> int:
        assert self._topology is not None
        self._join()
        graph, whom = self.graphs[self._topology], self._whom()
        pieces = sum(self._average(graph, self._row, buffer, whom=whom) for buffer in buffers)
        return pieces * len(self._row.destinations)

    def _count(self, size: int, messages: int) -> None:
        """Add that each out-neighbour has got so many bytes of this rank, and how long was waited."""
        degree = len(self._row.destinations)
        self.traffic.bytes += degree * size
        self.traffic.messages += messages
        self.traffic.neighbors += degree
        self.traffic.waited = self._average.waited + self._settled.waited + self._compressed.waited

    def _prepare(self, graphs: DistGraphs | None) -> None:
        """Let the communicator of the next round be made while this rank computes; another epoch may undo that."""
        if self.schedule.period != 1 and graphs is not None and background.allowed():
            self._prepared = self._background.submit(self._prepare_round, graphs, self._round + 1, self._epoch)

    def _prepare_round(self, graphs: DistGraphs, round: int, epoch: int) -> None:
        with contextlib.suppress(ValueError):  # what does not work is told when that round comes
            graphs[self.schedule(round, epoch)]

    def _join(self) -> None:
        """Wait for what goes on in the background: MPI's calls on a communicator have one order on all ranks."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            prepared.result()

    def _whom(self) -> Whom:
        """For whom this rank waits in this round, and on which graph."""
        assert self._topology is not None
        ranks = sorted({*self._row.sources.tolist(), *self._row.destinations.tolist()})
        where = f"in round {self._round} of graph {self._topology.name!r}"
        return self._world.roll_call.whom(self._name, self._mixes, ranks, lambda who: f"{who} {where}")

    def free(self) -> None:
        """End what goes on in the background and free the graph communicators."""
        self._background.free()
        self._pending = self._prepared = None
        self.graphs.free()
        self._settled.free()


def check_schedule(world: World, schedule: Schedule, replicas: str = "ranks") -> None:
    """Refuse, on every rank, a schedule for another number of replicas, or one that is not the same everywhere."""
    world.raise_together(
        None
        if schedule.n == world.size
        else f"graph {schedule.name!r} is made for {schedule.n} replicas, but this job has {world.size} {replicas}"
    )
    world.agree("the graph", schedule.name)
    world.agree(f"graph {schedule.name!r}: what its edges and weights come to", fingerprint(schedule))


def check_pending(started: tuple[int, int], asked: tuple[int, int]) -> None:
    """Refuse to change the graph under an exchange."""
    if started != asked:
        raise ValueError(
            f"the exchange of round {started[0]} in epoch {started[1]} is under way, got round {asked[0]} in epoch "
            f"{asked[1]}: tell the epoch, and load states, before the forward pass that follows"
        )
