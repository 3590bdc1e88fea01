"""Super-learners: ranks of a group hold the mean of the group, and groups gossip with groups.

`X <- (W(t) (x) 1 1^T/g) X`: of n ranks in groups of g, W(t) is a graph of n/g groups.

Each rank takes care of one slice of the vector: it averages that slice over its group, gossips it with the ranks that
take care of the same slice in other groups, and gives it to its group. What leaves a node for each neighbour of its
group is thus one vector, whatever the number of its ranks. Source: arXiv:2002.01119 (super-learners).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor

from hvd_gossip.comm import global_mean, mpi as MPI
from hvd_gossip.comm.chunks import chunk_bytes
from hvd_gossip.comm.dist_graph import DistGraphs
from hvd_gossip.comm.neighbor import NeighborAverage, check_buffer, running_mean
from hvd_gossip.comm.neighbor_mixer import check_schedule
from hvd_gossip.comm.raw import raw
from hvd_gossip.comm.staging import Staging
from hvd_gossip.comm.world import World
from hvd_gossip.graphs import Row, Schedule, Topology
from hvd_gossip.mixing import Buffers, Compresses, Eager, Traffic, accumulation_dtype, wire_dtype

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

PIECE_BYTES = 16 << 20
"""Bytes of a vector that are averaged at a time."""


class HierarchicalMixer(Eager):
    """Averages inside groups, then between them.

    Args:
        world: the ranks.
        schedule: round -> graph of as many replicas as there are groups.
        group_size: ranks of a group, which follow each other, or "node" for those of a node.
        wire: to what values are rounded that travel between groups, or None for not at all.
        piece_bytes: at most so many bytes of a vector are averaged at a time.

    Raises:
        ValueError: on every rank, when groups do not come out even, or the schedule is for another number of them.
    """

    def __init__(
        self,
        world: World,
        schedule: Schedule,
        group_size: int | str,
        wire: torch.dtype | None = None,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        self.size, self.group_size = world.size, check_group_size(world, group_size)
        self.traffic = Traffic()
        self._world = world
        self.schedule = schedule
        self._piece_bytes, self._wire = piece_bytes, wire
        number, self._position = divmod(world.rank, self.group_size)
        self._group = cast("Intracomm", world.comm.Split(number, world.rank))
        cross = cast("Intracomm", world.comm.Split(self._position, world.rank))
        self._peers = World(cross)
        cross.Free()
        check_schedule(self._peers, schedule, f"groups of {self.group_size} ranks")
        self._graphs = DistGraphs(self._peers)
        self._average, self._staging = NeighborAverage(chunk_bytes(world), wire), Staging()
        self._topology: Topology | None = None
        self._row: Row
        world.own(self.free)

    def begin(self, round: int, epoch: int) -> None:
        """Look the graph of this round up."""
        topology = self.schedule(round, epoch)
        if topology is not self._topology:
            self._topology, self._row = topology, topology.row(self._peers.rank)

    def mix(self, buffers: Buffers) -> None:
        with self.traffic.timed():
            for buffer in buffers:
                check_buffer(buffer)
                with self._staging(buffer, anyway=True) as staged:
                    self._mix_vector(staged)

    def mean(self, buffers: Buffers) -> None:
        global_mean.mean(self._world, buffers, self.traffic)

    def mean_of(self, value: Tensor) -> float:
        return global_mean.mean_of(self._world, value)

    def mix_compressed(self, buffers: Buffers, compressor: Compresses, seed: int) -> tuple[list[Tensor], list[Tensor]]:
        raise ValueError("groups of ranks send no compressed vectors: leave group_size out")

    def self_weight(self) -> float:
        raise ValueError("a rank of a group has no weight of its own: leave group_size out")

    def _mix_vector(self, vector: Tensor) -> None:
        values = torch.view_as_real(vector).view(-1) if vector.is_complex() else vector
        for piece in values.split(max(1, self._piece_bytes // values.element_size())) if len(values) else ():
            self._mix_piece(piece)

    def _mix_piece(self, piece: Tensor) -> None:
        """One piece in place: scatter and average in the group, gossip, gather in the group."""
        ends = [len(piece) * part // self.group_size for part in range(self.group_size + 1)]
        bounds = list(itertools.pairwise(ends))
        begin, end = bounds[self._position]
        mine = piece[begin:end]
        if self.group_size > 1:
            mine.copy_(self._group_mean(piece, bounds, end - begin))
        if self._peers.size > 1 and self._topology is not None:
            messages = self._average(self._graphs[self._topology], self._row, mine)
            width = wire_dtype(piece.dtype, self._wire).itemsize
            self.traffic.bytes += len(self._row.destinations) * len(mine) * width
            self.traffic.messages += len(self._row.destinations) * messages
        if self.group_size > 1:
            counts, starts = spans(bounds, piece)
            self._group.Allgatherv(MPI.IN_PLACE, [raw(piece), counts, starts, MPI.BYTE])
            self._count(len(bounds) * mine.nbytes - mine.nbytes)

    def _group_mean(self, piece: Tensor, bounds: list[tuple[int, int]], length: int) -> Tensor:
        """This rank's slice, averaged over the group."""
        received = piece.new_empty(self.group_size, length)
        counts, starts = spans(bounds, piece)
        mine = [received[0].nbytes] * self.group_size
        places = (np.arange(self.group_size) * received[0].nbytes).tolist()
        self._group.Alltoallv([raw(piece), counts, starts, MPI.BYTE], [raw(received), mine, places, MPI.BYTE])
        self._count(piece.nbytes - received[0].nbytes)
        total = torch.empty(length, dtype=accumulation_dtype(piece.dtype))
        return running_mean(total, [1 / self.group_size] * self.group_size, list(received))

    def _count(self, size: int) -> None:
        """Add what has left this rank for the others of its group."""
        self.traffic.bytes += size
        self.traffic.messages += self.group_size - 1

    def free(self) -> None:
        """Give communicators back to MPI; calling it again does nothing."""
        self._peers.free()
        if self._group != MPI.COMM_NULL:
            self._group.Free()


def check_group_size(world: World, told: int | str) -> int:
    """The size of groups that a user means: a number, or "node" for the ranks of a node.

    Raises:
        ValueError: on every rank, when groups do not come out even.
    """
    size = ranks_of_node(world) if told == "node" else told
    wrong = isinstance(size, bool) or not isinstance(size, int) or size < 1 or world.size % size
    expected = f"a divisor of {world.size}, or 'node'"
    world.raise_together(f"got groups of {size!r} for {world.size} ranks: expected {expected}" if wrong else None)
    world.agree("the size of groups", size)
    return int(size)


def ranks_of_node(world: World) -> int:
    """How many ranks every node has.

    Raises:
        ValueError: on every rank, when nodes have different numbers of ranks, or ranks that do not follow each other.
    """
    told = world.comm.allgather((world.local_size, min(world.node.allgather(world.rank))))
    size = told[0][0]
    expected = [(size, rank // size * size) for rank in range(world.size)]
    if told != expected:
        raise ValueError(
            "nodes hold different numbers of ranks, or ranks that do not follow each other: map by slot, or give the "
            "size of groups"
        )
    return size


def spans(bounds: list[tuple[int, int]], piece: Tensor) -> tuple[list[int], list[int]]:
    """Bytes and first byte of each slice."""
    width = piece.element_size()
    return [(end - begin) * width for begin, end in bounds], [begin * width for begin, _ in bounds]
