"""Which graph in which round: functions of (round, epoch) alone, so that a resumed run goes on exactly."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

from hvd_gossip.graphs.topology import Topology, boolean, called, integer, number, replicas

SAMPLED = 32
"""So many rounds stand for a schedule without a period."""
LONGEST = 100_000
"""So many rounds stand for one with a longer period."""
COMPARED = 8
"""So many rounds tell one schedule from another."""


class Schedule(Protocol):
    """A function from the round (optimizer steps that communicate) and the epoch to a graph of n replicas.

    Attributes:
        name: what the user called it.
        n: the number of replicas.
        period: after how many rounds the graphs come round again, or None.

    Where a schedule has them, `degree`, `random` and `second_moment` are used as they are told for `Varying`.
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
        ValueError: period, degree or second_moment does not fit; when called, the function gives no graph for n.

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
        self.random = boolean(name, "random", random)
        self.second_moment = None
        if second_moment is not None:
            self.second_moment = number(name, "second_moment", second_moment, lambda x: 0 <= x <= 1, "0 to 1")
        self.checked = False
        self._function = lru_cache(maxsize=self.period or 4)(function)

    def __call__(self, round: int, epoch: int = 0) -> Topology:
        for clock, value in (("round", round), ("epoch", epoch)):
            integer(self.name, clock, value, least=0)
        found = self._function(round, epoch) if self.period is None else self._function(round % self.period, 0)
        if not isinstance(found, Topology) or found.n != self.n:
            raise ValueError(
                f"graph {self.name!r}: round {round}, epoch {epoch} gave {found!r}, expected a Topology of {self.n} "
                "replicas"
            )
        return found

    def __repr__(self) -> str:
        return f"Varying({self.name!r}, n={self.n}, period={self.period})"


def as_schedule(given: Topology | Schedule, expected: str = "a Topology or a Schedule") -> Schedule:
    """A schedule as it is, a graph as the one of every round.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(given, Topology):
        return Static(given)
    if callable(given) and all(hasattr(given, told) for told in ("name", "n", "period")):
        return given
    raise ValueError(f"got graph = {called(given)}: expected {expected}")


def sequence(schedule: Schedule, epoch: int = 0) -> list[Topology]:
    """The graphs of all rounds of a period, of 100,000 where it is longer, of 32 where there is none."""
    return [schedule(t, epoch) for t in range(min(schedule.period or SAMPLED, LONGEST))]


def looked_at(schedule: Schedule, epoch: int = 0) -> list[tuple[Topology, int]]:
    """The different graphs of `sequence`, and in how many rounds each is.

    Example:
        >>> from hvd_gossip.graphs import periodic
        >>> [(topology.name, times) for topology, times in looked_at(periodic(8, every=100))]
        [('exponential', 99), ('complete', 1)]
    """
    found: dict[int, tuple[Topology, int]] = {}
    for topology in sequence(schedule, epoch):
        found[id(topology)] = topology, found.get(id(topology), (topology, 0))[1] + 1
    return list(found.values())


def fingerprint(schedule: Schedule) -> str:
    """A number that tells edges and weights of the first rounds from others, the same on all ranks and machines."""
    digest = hashlib.blake2b(repr((schedule.name, schedule.n, schedule.period)).encode(), digest_size=8)
    for early in range(min(schedule.period or COMPARED, COMPARED)):
        digest.update(schedule(early).fingerprint())
    return digest.hexdigest()
