"""What neighbour operations share: the graph, communicators, handles, and the order in which they are done."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import networkx as nx
from torch import Tensor

from hvd_gossip.comm import background, mpi as MPI, world
from hvd_gossip.comm.background import Background
from hvd_gossip.comm.chunks import chunk_bytes
from hvd_gossip.comm.dist_graph import DistGraphs
from hvd_gossip.comm.neighbor import NeighborAverage
from hvd_gossip.comm.point_to_point import PointToPoint
from hvd_gossip.comm.world import World
from hvd_gossip.graphs import Topology, from_networkx, schedule


class Operations:
    """What neighbour operations need on the ranks of a world.

    Args:
        here: the world.

    Attributes:
        topology: the graph of operations that are told none.
        pending: what has been begun and not been synchronized.
    """

    def __init__(self, here: World) -> None:
        self.world = here
        self.topology: Topology = topology_of("exponential", here.size)
        self.pending: set[Future] = set()
        self.graphs = DistGraphs(here)
        size = chunk_bytes(here)
        self.average = NeighborAverage(size)
        self._comms = [here.comm.Dup(), here.comm.Dup()]
        self.dynamic, self.pair = (PointToPoint(comm, size) for comm in self._comms)
        self._background = Background()
        here.own(self.free)

    def run(self, function: Callable[[], Tensor], nonblocking: bool) -> Any:
        """The result, or a handle; one order of calls on all ranks."""
        if not nonblocking and not self.pending:
            return function()
        if not background.allowed():
            future: Future = Future()
            future.set_result(function())
        else:
            future = self._background.submit(function)
        if not nonblocking:
            return future.result()
        self.pending.add(future)
        return future

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
    found = schedule(from_networkx(graph) if isinstance(graph, nx.Graph) else graph, n)
    if found.period != 1:
        raise ValueError(f"graph {found.name!r} changes with the round: give the graph of one, schedule(round)")
    return found(0, 0)


def set_topology(graph: Any = "exponential") -> None:
    """The graph of neighbour operations that are told none; every rank has to call it.

    Args:
        graph: a name as "ring", a `Topology`, or a graph of networkx.

    Raises:
        ValueError: no graph, or an operation has been begun and not been synchronized.
    """
    ours = operations()
    here = ours.world
    here.raise_together(
        f"{len(ours.pending)} operations are under way: synchronize their handles before the graph changes"
        if ours.pending
        else None
    )
    found = here.together(lambda: topology_of(graph, here.size))
    here.agree("the graph", found.name)
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


def poll(handle: Future) -> bool:
    """Whether an operation is done, so that `synchronize` will not wait."""
    return handle.done()


def synchronize(handle: Future) -> Tensor:
    """Wait for an operation; returns its result, or raises its error."""
    operations().pending.discard(handle)
    return handle.result()


def check_tensor(tensor: Any) -> None:
    """Refuse what has no average."""
    if not isinstance(tensor, Tensor) or not (tensor.is_floating_point() or tensor.is_complex()):
        kind = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise ValueError(f"got {kind}: expected a tensor of floating-point or complex numbers")


def averaged_copy(tensor: Tensor, in_place: bool, average: Callable[[Tensor], None]) -> Tensor:
    """Let `average` change a tensor as a flat vector: the tensor itself, or a copy of it."""
    out = tensor.detach() if in_place else tensor.detach().clone()
    flat = out.contiguous().view(-1)
    average(flat)
    if flat.data_ptr() != out.data_ptr():
        out.copy_(flat.view(out.shape))
    return tensor if in_place else out
