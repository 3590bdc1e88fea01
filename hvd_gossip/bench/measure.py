"""Times of candidates that take turns, so that whatever else the machine does meets all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from hvd_gossip.bench.candidates import Candidate
from hvd_gossip.comm import mpi as MPI
from hvd_gossip.comm.world import World

LEAST_SECONDS = 0.01
"""A turn repeats what is quicker than this."""
MOST_IN_A_TURN = 50
BASE = ("Horovod allreduce", "Horovod", "MPI allreduce", "no communication")
"""What the others are compared with: the first of these that is there."""


@dataclass
class Timing:
    """Seconds of one candidate, of the slowest rank, one for each turn.

    Attributes:
        bytes, messages, neighbors: sent by one rank in one go, and to how many, the most of any rank; None where it is
            not known.
    """

    name: str
    seconds: list[float]
    bytes: float | None = None
    messages: float | None = None
    neighbors: float | None = None

    @property
    def median(self) -> float:
        """The middle of all turns."""
        return statistics.median(self.seconds)

    def quartiles(self) -> tuple[float, float]:
        """A quarter of the turns were quicker, a quarter slower."""
        if len(self.seconds) < 2:
            return self.seconds[0], self.seconds[0]
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return low, high

    def ratio(self, base: Timing) -> float:
        """The median of the quotients turn by turn."""
        return statistics.median(mine / other for mine, other in zip(self.seconds, base.seconds, strict=True))


@dataclass
class Result:
    """All candidates at one size.

    Attributes:
        title: what was exchanged or trained; bytes: of one copy of it, or None for a step.
    """

    title: str
    bytes: int | None
    timings: list[Timing]

    @property
    def base(self) -> Timing:
        """What the others are compared with."""
        names = {timing.name: timing for timing in self.timings}
        return next(names[name] for name in BASE if name in names)


def measure(
    world: World, candidates: Sequence[Candidate], seconds: float, turn_seconds: float = LEAST_SECONDS, least: int = 5
) -> list[Timing]:
    """Let the candidates take turns for about so many seconds, and `least` turns at least.

    Args:
        world: the ranks.
        candidates: what is measured.
        seconds: for all turns together.
        turn_seconds: a turn repeats what is quicker until it takes about as long.
        least: turns that are taken in any case.
    """
    repeats = []
    for candidate in candidates:
        turn(world, candidate, 2)
        repeats.append(max(1, min(MOST_IN_A_TURN, int(turn_seconds / turn(world, candidate, 1)))))
    before = [candidate.sent() if candidate.sent else None for candidate in candidates]
    timings = [Timing(candidate.name, []) for candidate in candidates]
    end = time.monotonic() + seconds
    while len(timings[0].seconds) < least or world.comm.bcast(time.monotonic() < end):
        for candidate, count, timing in zip(candidates, repeats, timings, strict=True):
            timing.seconds.append(turn(world, candidate, count))
    for candidate, count, timing, start in zip(candidates, repeats, timings, before, strict=True):
        if candidate.sent and start:
            goes = count * len(timing.seconds)
            most = [world.comm.allreduce(a - b, MPI.MAX) / goes for a, b in zip(candidate.sent(), start, strict=True)]
            timing.bytes, timing.messages, timing.neighbors = most
    return timings


def turn(world: World, candidate: Candidate, count: int) -> float:
    """Seconds that one go took the slowest rank, over a number of goes in a row."""
    world.comm.Barrier()
    begin = time.perf_counter()
    for _ in range(count):
        candidate.run()
    return world.comm.allreduce((time.perf_counter() - begin) / count, MPI.MAX)
