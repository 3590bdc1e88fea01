"""A Topology as an MPI distributed graph communicator: checked, built, kept while it is in use, freed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from hvd_gossip.comm import mpi as MPI
from hvd_gossip.comm.agreement import Agreement, agreed, raise_together
from hvd_gossip.comm.world import World
from hvd_gossip.graphs import Row, Topology
from hvd_gossip.graphs.seeds import hash64

if TYPE_CHECKING:
    from mpi4py.MPI import Distgraphcomm, Intracomm


class DistGraphs:
    """A bounded store of distributed graph communicators, one for each edge set that came up lately.

    Args:
        world: the ranks; every rank asks for the same topologies in the same order.
        limit: how many communicators are kept; the one unused for longest is freed first.
        part: which neighbours of a rank the communicators have (default: all).

    Example:
        >>> from hvd_gossip.graphs import ring
        >>> with World() as world, DistGraphs(world) as graphs:
        ...     graphs[ring(world.size)].Get_topology() == MPI.DIST_GRAPH
        True
    """

    def __init__(self, world: World, limit: int = 16, part: Callable[[Row], Row] = lambda row: row) -> None:
        if limit < 1:
            raise ValueError(f"got limit = {limit}, expected at least 1 communicator")
        self.world = world
        self.limit = limit
        # Graphs may be made in the background, when the world's own communicator is in use.
        self._agreement = Agreement(world.comm.Dup())
        self._part = part
        self.built = 0
        self._kept: OrderedDict[Hashable, Distgraphcomm] = OrderedDict()
        world.own(self.free)

    def __getitem__(self, topology: Topology) -> Distgraphcomm:
        key = topology.edges
        if key not in self._kept:
            while len(self._kept) >= self.limit:
                self._kept.popitem(last=False)[1].Free()
            row = self._part(topology.row(self.world.rank))
            self._kept[key] = build(self._agreement, row, topology.name)
            self.built += 1
        self._kept.move_to_end(key)
        return self._kept[key]

    def free(self) -> None:
        """Free every communicator; calling it again does nothing."""
        while self._kept:
            self._kept.popitem()[1].Free()
        if self._agreement.comm != MPI.COMM_NULL:
            self._agreement.comm.Free()

    def __enter__(self) -> DistGraphs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.free()


def build(agreement: Agreement, row: Row, name: str) -> Distgraphcomm:
    """Make the communicator of the graph in which this rank has this row.

    Raises:
        ValueError: on every rank, when one rank lists an edge that the rank at its other end does not.
    """
    check_edges(agreement, row, name)
    # MPI's edge weights are integers: W stays in Python and the communicator knows neighbours only.
    return agreement.comm.Create_dist_graph_adjacent(
        row.sources.tolist(), row.destinations.tolist(), MPI.UNWEIGHTED, MPI.UNWEIGHTED, reorder=False
    )


def check_edges(agreement: Agreement, row: Row, name: str) -> None:
    """Refuse, on every rank, a graph whose rows and columns do not agree: its exchange would never end.

    The sum over all ranks of a 64-bit hash of every edge sent, less that of every edge expected, is zero when they
    agree; only when it is not are the edges themselves gathered, to name the one that is wrong.

    Raises:
        ValueError: names the edge, which end lists it and which does not.
    """
    size = agreement.size
    outside = [rank for rank in (*row.sources, *row.destinations) if not 0 <= rank < size]
    error = f"graph {name!r}: neighbour {outside[0]} is no rank of {size}" if outside else None
    balance = 0 if outside else edge_balance(row, agreement.rank)
    # The second number keeps ranks from cancelling each other out by their own errors.
    if any(agreement.total([balance, error is not None], f"make the communicator of graph {name!r}")):
        raise_edge(agreement.comm, row, name, error)


def edge_balance(row: Row, rank: int) -> int:
    """Hashes of the edges that a rank sends on, less those of the edges that it hears, modulo 2^64."""
    sent = edge_hash(np.full(len(row.destinations), rank), row.destinations)
    expected = edge_hash(row.sources, np.full(len(row.sources), rank))
    return int(np.subtract([sent.sum()], [expected.sum()], dtype=np.uint64)[0])


def edge_hash(sources: np.ndarray, destinations: np.ndarray) -> np.ndarray:
    """A well-mixed 64-bit number for each edge."""
    return hash64(sources.astype(np.uint64) << np.uint64(32) | destinations.astype(np.uint64))


def raise_edge(comm: Intracomm, row: Row, name: str, error: str | None) -> None:
    """Gather all edges and raise on every rank, naming the first edge that only one end lists."""
    raise_together(comm, error)
    rows = comm.allgather((row.sources.tolist(), row.destinations.tolist()))
    sent = {(rank, to) for rank, (_, destinations) in enumerate(rows) for to in destinations}
    expected = {(of, rank) for rank, (sources, _) in enumerate(rows) for of in sources}
    for source, destination in sorted(sent ^ expected):
        lists, lacks = (source, destination) if (source, destination) in sent else (destination, source)
        raise agreed(
            f"graph {name!r}: edge {source} -> {destination} is listed by rank {lists} but not by rank {lacks}: "
            "every rank must be given the same graph"
        )
    raise agreed(f"graph {name!r}: a rank lists the same neighbour twice")
