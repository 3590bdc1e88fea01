"""Which graph in which round: functions of (round, epoch) alone, so that a resumed run goes on exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hvd_gossip import specification
from hvd_gossip.graphs import static
from hvd_gossip.graphs.topology import Topology


class Schedule(Protocol):
    """A function from the round (optimizer steps that communicate) and the epoch to a graph of n replicas.

    Attributes:
        name: what the user called it.
        n: the number of replicas.
        period: after how many rounds the graphs come round again, or None.
    """

    @property
    def name(self) -> str: ...
    @property
    def n(self) -> int: ...
    @property
    def period(self) -> int | None: ...

    def __call__(self, round: int, epoch: int = 0) -> Topology: ...


class Static:
    """The same graph in every round.

    Example:
        >>> Static(static.ring(8))(round=5).name
        'ring'
    """

    period: int | None = 1

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.name = topology.name
        self.n = topology.n

    def __call__(self, round: int, epoch: int = 0) -> Topology:
        return self.topology


GRAPHS: dict[str, Callable[..., Topology]] = {
    "complete": static.complete,
    "exponential": static.exponential,
    "ring": static.ring,
}


def schedule(graph: str | Topology | Schedule, n: int) -> Schedule:
    """The schedule that a user's `graph` argument means.

    Args:
        graph: a name as `"ring"`, with options as `"name:option=value"`; a `Topology`; or a `Schedule` of one's own.
        n: the number of replicas it has to fit.

    Raises:
        ValueError: unknown name or option, or a graph made for another n.

    Example:
        >>> schedule("exponential", 8)(round=0).row(0).sources.tolist()
        [4, 6, 7]
    """
    if isinstance(graph, str):
        return Static(specification.build("graph", graph, GRAPHS, n=n))
    found: Schedule = Static(graph) if isinstance(graph, Topology) else graph
    if not callable(found) or not hasattr(found, "n") or not hasattr(found, "name"):
        raise ValueError(f"got graph = {graph!r}: expected a name, a Topology or a Schedule")
    if found.n != n:
        raise ValueError(f"graph {found.name!r} is made for {found.n} replicas, but this job has {n} ranks")
    return found
