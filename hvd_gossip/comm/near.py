"""Settled parameters averaged with the neighbours of the same node in shared memory, with all others by messages."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hvd_gossip.comm.dist_graph import DistGraphs
from hvd_gossip.comm.neighbor import NeighborAverage
from hvd_gossip.comm.shared import SharedVectors
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


class NearVectors:
    """The settled parameters of this rank, and how they are averaged.

    Args:
        world: the ranks.
        chunk_bytes: at most so many bytes go to one far neighbour in one call.
        node: the ranks that share this rank's memory (default: all that do).
    """

    def __init__(self, world: World, chunk_bytes: int, node: Intracomm | None = None) -> None:
        self._world = world
        self._node: Intracomm = world.node if node is None else node
        self._average = NeighborAverage(chunk_bytes)
        self._parameters: Settling | None = None
        self._vectors: SharedVectors | None = None
        self._graphs: DistGraphs | None = None

    def settle(self, parameters: Settling) -> None:
        """Move parameters to shared memory, unless the ranks of this node have none, or too little."""
        self.free()
        fits = all(buffer.device.type == "cpu" for buffer in parameters.buffers)
        if fits and self._node.Get_size() > 1:
            try:
                self._vectors = SharedVectors(self._world, self._node, parameters.kinds)
            except OSError as error:
                if self._node.Get_rank() == 0:
                    warnings.warn(f"{error}; ranks of a node send messages instead", RuntimeWarning, stacklevel=2)
        self._parameters = parameters if self._vectors else None
        if self._vectors:
            parameters.settle(self._vectors.own.places)
        # Where all ranks see each other no communicator is needed, whatever the graph.
        seen = len(self._vectors.segments) if self._vectors else 1
        if min(self._world.comm.allgather(seen)) < self._world.size:
            self._graphs = DistGraphs(self._world, part=self._far)

    def holds(self, buffers: Buffers) -> bool:
        """Whether these are the settled parameters."""
        return self._parameters is not None and buffers is self._parameters.buffers

    def _far(self, row: Row) -> Row:
        """The part of a row that no shared memory carries."""
        assert self._vectors is not None
        near = list(self._vectors.segments)
        sources, destinations = (~np.isin(ranks, near) for ranks in (row.sources, row.destinations))
        return row._replace(
            sources=row.sources[sources],
            source_weights=row.source_weights[sources],
            destinations=row.destinations[destinations],
        )

    def mix(self, topology: Topology, row: Row, whom: Callable[..., str], meanwhile: Callable[[], None]) -> int:
        """`x <- W x`; `meanwhile` is done before others are waited for. Returns the messages to each far neighbour."""
        assert self._vectors is not None and self._parameters is not None
        graph = self._graphs[topology] if self._graphs else None
        sources = self._vectors.open(row, fingerprint_of(topology), whom, meanwhile)
        messages, side = 0, self._vectors.side
        for index, (buffer, out) in enumerate(zip(self._parameters.buffers, self._parameters.other(), strict=True)):
            near = {source: self._vectors.segments[source].places[index][side] for source in sources}
            messages += self._average(graph, row, buffer, out, near, whom)
        self._vectors.close()
        self._parameters.turn()
        return messages if graph else 0

    def free(self) -> None:
        """Give communicators and window back to MPI; the parameters stay where they are."""
        if self._graphs is not None:
            self._graphs.free()
        self._graphs = self._vectors = self._parameters = None
