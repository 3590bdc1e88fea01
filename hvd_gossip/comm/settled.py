"""Parameters that have settled: two places each, and an average that is written to the place not in use.

Where the ranks of a node can share memory the places lie there, and neighbours of the same node read each other's
values where they are; everything else travels by messages.
"""

from __future__ import annotations

import os
import warnings
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from hvd_gossip.comm import mpi as MPI, slices
from hvd_gossip.comm.background import Progress
from hvd_gossip.comm.dist_graph import DistGraphs
from hvd_gossip.comm.neighbor import NeighborAverage
from hvd_gossip.comm.shared import SharedVectors
from hvd_gossip.comm.watchdog import Whom
from hvd_gossip.comm.world import World
from hvd_gossip.graphs import Row, Topology
from hvd_gossip.mixing import Buffers, Settling

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


def wanted(told: bool | None) -> bool:
    """Whether shared memory is to be used: as told, or as the environment says.

    Raises:
        ValueError: the environment variable is neither 0 nor 1.
    """
    if told is not None:
        return told
    value = os.environ.get("HVD_GOSSIP_SHARED_MEMORY", "1")
    if value not in ("0", "1"):
        raise ValueError(f"got HVD_GOSSIP_SHARED_MEMORY = {value!r}: expected 1, or 0 to send messages on a node too")
    return value == "1"


@lru_cache(maxsize=4)
def fingerprint_of(topology: Topology) -> int:
    """64 bits that tell edges and weights from others."""
    return int.from_bytes(topology.fingerprint()[:8], "little", signed=True)


class SettledVectors:
    """The settled parameters of this rank, and how they are averaged.

    Args:
        world: the ranks.
        average: how a vector is averaged.
        node: the ranks that share this rank's memory, or None to send messages to all.

    Attributes:
        graphs: communicators with the neighbours that messages go to, or None where all share their memory.
    """

    def __init__(self, world: World, average: NeighborAverage, node: Intracomm | None) -> None:
        self._world, self._node, self._average = world, node, average
        self._parameters: Settling | None = None
        self._vectors: SharedVectors | None = None
        self._sliced: SharedVectors | None = None
        self.graphs: DistGraphs | None = None

    def settle(self, parameters: Settling, anyway: bool) -> None:
        """Give parameters a second place: in shared memory, or, if it must be `anyway`, in that of this rank alone."""
        self.free()
        self._vectors = self._share(parameters)
        overlap = bool(self._world.comm.allreduce(anyway, MPI.LOR))
        # All ranks go one way: a rank alone on its node, or on one without shared memory, gets places of its own.
        anyway = bool(self._world.comm.allreduce(anyway or self._vectors is not None, MPI.LOR))
        self._parameters = parameters if self._vectors or anyway else None
        if self._vectors:
            parameters.settle(self._vectors.own.places)
        elif anyway:
            spaces = [buffer.new_empty(2, len(buffer)) for buffer in parameters.buffers]
            parameters.settle([(space[0], space[1]) for space in spaces])
        # Where all ranks see each other no communicator is needed, whatever the graph.
        seen = len(self._vectors.segments) if self._vectors else 1
        if self._world.comm.allreduce(seen < self._world.size):
            self.graphs = DistGraphs(self._world, part=self._far)
        elif not overlap:
            # Behind computation nobody shall wait for more ranks than his neighbours.
            self._sliced = self._vectors

    def _share(self, parameters: Settling) -> SharedVectors | None:
        fits = all(buffer.device.type == "cpu" for buffer in parameters.buffers)
        if self._node is None or not fits or self._node.Get_size() == 1:
            return None
        try:
            return SharedVectors(self._world, self._node, parameters.kinds)
        except OSError as error:
            if self._node.Get_rank() == 0:
                warnings.warn(f"{error}; ranks of a node send messages instead", RuntimeWarning, stacklevel=2)
            return None

    def holds(self, buffers: Buffers) -> bool:
        """Whether these are the settled parameters."""
        return self._parameters is not None and buffers is self._parameters.buffers

    def _far(self, row: Row) -> Row:
        """The part of a row that no shared memory carries."""
        near = list(self._vectors.segments) if self._vectors else []
        sources, destinations = (~np.isin(ranks, near) for ranks in (row.sources, row.destinations))
        return row._replace(
            sources=row.sources[sources],
            source_weights=row.source_weights[sources],
            destinations=row.destinations[destinations],
        )

    def mix(self, topology: Topology, row: Row, whom: Whom, progress: Progress | None = None) -> int:
        """Write W x to the other place; nothing else changes. Returns how many messages leave this rank."""
        if self._sliced and slices.pay(self._sliced, topology):
            self._mix_slices(self._sliced, topology, whom)
            return 0
        return self._mix_row(topology, row, whom, progress)

    def _mix_slices(self, vectors: SharedVectors, topology: Topology, whom: Whom) -> None:
        """This rank's slice for all ranks; by the end all have done theirs."""
        rank = self._world.rank
        others = [of for of in range(topology.n) if of != rank]
        vectors.open(others, others, fingerprint_of(topology), whom)
        for index in range(len(vectors.own.places)):
            slices.average(vectors, rank, index, topology, self._average.wire)
        vectors.close()
        vectors.quiesce(whom)

    def _mix_row(self, topology: Topology, row: Row, whom: Whom, progress: Progress | None) -> int:
        """This rank's row, from what near neighbours hold and what others send."""
        assert self._parameters is not None
        graph = self.graphs[topology] if self.graphs else None
        sources: list[int] = []
        if self._vectors:
            sources, hearers = (self._vectors.near(ranks.tolist()) for ranks in (row.sources, row.destinations))
            self._vectors.open(sources, hearers, fingerprint_of(topology), whom)
        messages = 0
        for index, (buffer, out) in enumerate(zip(self._parameters.current(), self._parameters.other(), strict=True)):
            near = {source: self._vectors.current(source, index) for source in sources} if self._vectors else {}
            reach = partial(progress.reach, index) if progress else lambda length: None
            messages += self._average(graph, row, buffer, out, near, whom, reach)
            reach(len(buffer))
        if self._vectors:
            self._vectors.close()
        return messages * len(self._far(row).destinations) if graph else 0

    @property
    def waited(self) -> float:
        """Seconds spent waiting for ranks of this node so far."""
        return self._vectors.waited if self._vectors else 0.0

    def quiesce(self, whom: Whom) -> None:
        """Wait until nobody reads this rank's values any more."""
        if self._vectors:
            self._vectors.quiesce(whom)

    def turn(self) -> None:
        """Let the parameters be what `mix` has written."""
        assert self._parameters is not None
        self._parameters.turn()
        if self._vectors:
            self._vectors.side = 1 - self._vectors.side

    def free(self) -> None:
        """Give communicators back to MPI; the parameters stay where they are."""
        if self.graphs is not None:
            self.graphs.free()
        self.graphs = self._vectors = self._sliced = self._parameters = None
