"""Waiting for other ranks: without stealing the core from a rank that computes, and not for ever in silence."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable

from hvd_gossip.comm import ending, mpi as MPI

STALL_SECONDS = float(os.environ.get("HVD_GOSSIP_STALL_SECONDS", "60"))
"""Seconds after which a rank that waits says for whom."""
END_SECONDS = float(os.environ.get("HVD_GOSSIP_STALL_END_SECONDS", "inf"))
"""Seconds after which it ends the job."""
SPINS = 200
"""So often a rank looks, and lets others run, before it sleeps."""
NAP, LONGEST_NAP = 5e-5, 1e-3
"""Seconds that it sleeps between two looks: the first time, and at most."""


class Whom:
    """For whom a rank waits.

    Args:
        text: says it in words, when called; `rank` where it is known which one is missing.
        halfway: is called once when half of the time to a report has passed.
    """

    def __init__(self, text: Callable[..., str], halfway: Callable[[], None] = lambda: None) -> None:
        self.text, self.halfway = text, halfway

    def rank(self, rank: int) -> Whom:
        """The same where it is known that this rank is missing."""
        return Whom(lambda: self.text(rank))


NEIGHBOURS = Whom(lambda *_: "its neighbours")


def wait(done: Callable[[], bool], whom: Whom) -> float:
    """Look a few times, then sleep in between, until something is done; returns the seconds that it took.

    After `STALL_SECONDS` it warns once and goes on waiting; after `END_SECONDS` it ends the job with status 1.

    Args:
        done: looks.
        whom: for whom.
    """
    begin = time.monotonic()
    for _ in range(SPINS):
        if done():
            return time.monotonic() - begin
        os.sched_yield()
    limit, nap = min(STALL_SECONDS, END_SECONDS), NAP
    half = limit / 2
    while not done():
        time.sleep(nap)
        waited = time.monotonic() - begin
        nap = min(max(NAP, waited / 8), LONGEST_NAP)
        if waited > half:
            half = math.inf
            whom.halfway()
        if waited > limit:
            report(waited, whom.text())
            limit = END_SECONDS if limit < END_SECONDS else math.inf
    return time.monotonic() - begin


def report(waited: float, whom: str) -> None:
    """Say on standard error for whom this rank waits, and end the job if that has lasted too long."""
    end = waited > END_SECONDS
    sys.stderr.write(
        f"rank {MPI.COMM_WORLD.Get_rank()} has waited {waited:.0f} s for {whom}: have all ranks the same number of "
        f"steps and the same trained parameters, or has one ended?{' The job ends.' if end else ''}\n"
    )
    sys.stderr.flush()
    if end:
        # Other ranks wait too, and have a moment to say for whom.
        time.sleep(1.0)
        ending.abort(1)
