"""What neighbour operations share: the graph, communicators, handles, and the order in which they are done."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache
from typing import Any, NamedTuple

import networkx as nx
from torch import Tensor

from hvd_gossip.comm import background, mpi as MPI, requests, world
from hvd_gossip.comm.agreement import Agreement, attempt
from hvd_gossip.comm.background import Background
from hvd_gossip.comm.chunks import chunk_bytes
from hvd_gossip.comm.dist_graph import DistGraphs
from hvd_gossip.comm.neighbor import NeighborAverage
from hvd_gossip.comm.point_to_point import PointToPoint
from hvd_gossip.comm.requests import Asked
from hvd_gossip.comm.watchdog import Whom
from hvd_gossip.comm.world import World
from hvd_gossip.graphs import Topology, from_networkx, schedule


class Handle:
    """An operation that goes on while this rank computes.

    Args:
        future: of its result.
    """

    def __init__(self, future: Future) -> None:
        self.future = future


class Prepared(NamedTuple):
    """An operation whose arguments are right as far as one rank can tell.

    Attributes:
        asked: what other ranks have to ask for too.
        action: does it.
    """

    asked: Asked
    action: Callable[[], Tensor]


class Operations:
    """What neighbour operations need on the ranks of a world.

    Args:
        here: the world.

    Attributes:
        topology: the graph of operations that are told none.
        pending: handles that somebody holds and has not synchronized.
    """

    def __init__(self, here: World) -> None:
        self.world = here
        self.topology: Topology = topology_of("exponential", here.size)
        self.pending: weakref.WeakSet[Handle] = weakref.WeakSet()
        self.graphs = DistGraphs(here)
        size = chunk_bytes(here)
        self.average = NeighborAverage(size)
        self._comms = [here.comm.Dup() for _ in range(3)]
        self.dynamic, self.pair = (PointToPoint(comm, size) for comm in self._comms[:2])
        self.pair_comm = self._comms[1]
        # Operations may go on in the background, when the world's own communicator is in use.
        self._agreement = Agreement(self._comms[2])
        self._background = Background()
        self._calls = 0
        here.own(self.free)

    def together(self, prepare: Callable[[], Prepared], nonblocking: bool, compared: bool = True) -> Any:
        """An operation of all ranks, once they ask for the same; an error on one rank is raised on all.

        Args:
            prepare: looks at the arguments.
            nonblocking: whether a handle is returned, whose `synchronize` gives the result or the error.
            compared: whether ranks are asked at all.
        """
        prepared, error, cause = attempt(prepare)
        if cause is not None and not compared:
            raise cause

        def run() -> Tensor:
            if compared:
                try:
                    requests.compare(self._agreement, prepared and prepared.asked, error)
                except ValueError as raised:
                    raise raised from cause
            return prepared.action()

        return self.run(run, nonblocking)

    def run(self, function: Callable[[], Tensor], nonblocking: bool) -> Any:
        """The result, or a handle; one order of calls on all ranks."""
        if not background.allowed():
            future: Future = Future()
            future.set_result(function())
        elif nonblocking or not self._background.idle:
            future = self._background.submit(function)
        else:
            return function()
        if not nonblocking:
            return future.result()
        handle = Handle(future)
        self.pending.add(handle)
        return handle

    def whom(self, ranks: list[int], text: str) -> Whom:
        """For whom a rank waits in an operation of all ranks."""
        self._calls += 1
        return self._agreement.roll_call.whom("operation", self._calls, ranks, lambda who: f"{who} {text}")

    def free(self) -> None:
        """Wait for what is under way and give communicators back."""
        self._background.free()
        for comm in self._comms:
            if comm != MPI.COMM_NULL:
                comm.Free()


_operations: Operations | None = None


def operations() -> Operations:
    """Those of the current world."""
    global _operations
    here = world.current()
    if _operations is None or _operations.world is not here:
        _operations = Operations(here)
    return _operations


def topology_of(graph: Any, n: int) -> Topology:
    """A static graph from a name, a Topology or a networkx graph.

    Raises:
        ValueError: a schedule that changes, or no graph.
    """
    if not isinstance(graph, str | Topology | nx.Graph):
        raise ValueError(
            f"got graph of type {type(graph).__name__}: expected a name as 'ring', a Topology, or a graph of networkx; "
            "of a mixing matrix W, MatrixTopology('name', W) makes one"
        )
    found = schedule(from_networkx(graph) if isinstance(graph, nx.Graph) else graph, n)
    if found.period != 1:
        raise ValueError(
            f"graph {found.name!r} changes with the round: give the graph of one round, "
            f"hvd_gossip.graphs.schedule({found.name!r}, {n})(round, epoch)"
        )
    return found(0, 0)


@lru_cache(maxsize=16)
def seal_of(topology: Topology) -> bytes:
    """What tells edges and weights of a graph from others."""
    return topology.fingerprint()


def set_topology(graph: Any = "exponential") -> None:
    """The graph of neighbour operations that are told none; every rank has to call it.

    Args:
        graph: a name as "ring", a `Topology`, or a graph of networkx.

    Raises:
        ValueError: no graph, or an operation has been begun whose handle is held and has not been synchronized.
    """
    ours = operations()
    here = ours.world

    def check() -> Topology:
        found = topology_of(graph, here.size)
        if ours.pending:
            raise ValueError(
                f"{len(ours.pending)} operations are under way: synchronize their handles before the graph changes"
            )
        return found

    found = here.together(check)
    here.agree("the graph", (found.name, seal_of(found)))
    ours.topology = found


def load_topology() -> Topology:
    """The graph of neighbour operations that are told none."""
    return operations().topology


def in_neighbor_ranks() -> list[int]:
    """Whom this rank hears in that graph."""
    return operations().topology.row(world.current().rank).sources.tolist()


def out_neighbor_ranks() -> list[int]:
    """Who hears this rank in that graph."""
    return operations().topology.row(world.current().rank).destinations.tolist()


def poll(handle: Handle) -> bool:
    """Whether an operation is done, so that `synchronize` will not wait."""
    return future_of(handle).done()


def synchronize(handle: Handle) -> Tensor:
    """Wait for an operation; returns its result, or raises its error."""
    future = future_of(handle)
    operations().pending.discard(handle)
    return future.result()


def future_of(handle: Any) -> Future:
    """The future behind a handle.

    Raises:
        ValueError: something else.
    """
    if not isinstance(handle, Handle):
        raise ValueError(f"got {handle!r}: expected what an operation whose name has _nonblocking in it has returned")
    return handle.future
