"""Which graph in which round: functions of (round, epoch) alone, so that a resumed run goes on exactly."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

from hvd_gossip.graphs.topology import Topology, integer, replicas


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

    Attributes:
        degree: the largest number of replicas that one hears, or that hear it.
        checked: whether `schedule` has seen to it that replicas agree, and has told where they do not keep their mean.

    Example:
        >>> from hvd_gossip.graphs import ring
        >>> Static(ring(8))(round=5).name
        'ring'
    """

    period: int | None = 1
    random = False

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.checked = False
        self.name = topology.name
        self.n = topology.n

    @property
    def degree(self) -> int:
        return self.topology.degree

    def __call__(self, round: int, epoch: int = 0) -> Topology:
        return self.topology

    def __repr__(self) -> str:
        return f"Static({self.topology!r})"


class Varying:
    """Graphs that change: a function of round and epoch, with what is known of it. Users' own functions go here.

    Args:
        name: equal on all ranks; it has to tell this schedule from others.
        n: number of replicas.
        function: (round, epoch) to a Topology of n replicas; a pure function, so that all ranks agree and a resumed run
            goes on exactly. With a period it is asked for rounds below the period only.
        period: after how many rounds the graphs come round again, whatever the epoch; None where they do not.
        degree: the largest number of replicas that one hears, or that hear it, in any round; None where not known.
        random: whether rounds are drawn at random, independently of each other.
        second_moment: of a random schedule, the second eigenvalue of E[W^T W], where a closed form is known.

    Raises:
        ValueError: period or degree is no fitting integer; when called, the function gives no graph of n replicas.

    Example:
        >>> from hvd_gossip.graphs import complete, ring
        >>> mine = Varying("mine", 8, lambda round, epoch: ring(8) if epoch < 5 else complete(8), degree=7)
        >>> mine(round=100, epoch=4).name, mine(round=125, epoch=5).name
        ('ring', 'complete')
    """

    def __init__(
        self,
        name: str,
        n: int,
        function: Callable[[int, int], Topology],
        period: int | None = None,
        degree: int | None = None,
        random: bool = False,
        second_moment: float | None = None,
    ) -> None:
        self.name, self.n = name, replicas(name, n)
        self.period = None if period is None else integer(name, "period", period)
        self.degree = None if degree is None else integer(name, "degree", degree, least=0)
        if self.degree is not None and self.degree > max(0, self.n - 1):
            raise ValueError(f"graph {name!r}: got degree = {degree!r}, expected at most {self.n - 1} for {n} replicas")
        self.random, self.second_moment = random, second_moment
        self._function = lru_cache(maxsize=self.period or 4)(function)

    def __call__(self, round: int, epoch: int = 0) -> Topology:
        found = self._function(round, epoch) if self.period is None else self._function(round % self.period, 0)
        if not isinstance(found, Topology) or found.n != self.n:
            raise ValueError(
                f"graph {self.name!r}: round {round}, epoch {epoch} gave {found!r}, expected a Topology of {self.n} "
                "replicas"
            )
        return found

    def __repr__(self) -> str:
        return f"Varying({self.name!r}, n={self.n}, period={self.period})"
