"""Who waits and who does not: told only once ranks have waited long, so that a report names those who are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from hvd_gossip.comm import mpi as MPI
from hvd_gossip.comm.watchdog import Whom

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm, Request

TAG = 32_767
"""Of the messages in which ranks tell that they wait; nothing else on the communicator has it."""


class RollCall:
    """A rank that has waited for half of the time to a report tells the others for what.

    Whoever has not told so by the time of the report is late, dead, or somewhere else.

    Args:
        comm: the ranks; messages with `TAG` on it belong to the roll call.
    """

    def __init__(self, comm: Intracomm) -> None:
        self._comm = comm
        self._sent: list[Request] = []
        self._told: dict[tuple[int, str], int] = {}

    def whom(self, where: str, number: int, others: Sequence[int], text: Callable[[str], str]) -> Whom:
        """For whom this rank waits.

        Args:
            where: what is waited for, the same text on all ranks; number: how often that has been so.
            others: the ranks that should come; each of them may be the one that is missing.
            text: the report, given the missing ranks in words.
        """

        def told(rank: int | None = None) -> str:
            missing = self.missing(where, number, others) if rank is None else [rank]
            return text(missing_text(missing, others))

        return Whom(told, lambda: self.announce(where, number, others))

    def announce(self, where: str, number: int, others: Iterable[int]) -> None:
        """Tell others that this rank waits."""
        self._sent += [self._comm.isend((where, number), rank, TAG) for rank in others]

    def missing(self, where: str, number: int, others: Iterable[int]) -> list[int]:
        """Those of the others that have not told that they wait here, or later on."""
        status = MPI.Status()
        while (message := self._comm.improbe(tag=TAG, status=status)) is not None:
            place, count = message.recv()
            key = (status.Get_source(), place)
            self._told[key] = max(count, self._told.get(key, count))
        return [rank for rank in others if self._told.get((rank, where), -1) < number]


def missing_text(missing: Sequence[int], others: Sequence[int]) -> str:
    """The ranks that are missing, in words; where none is, the one that is lies behind one of the others."""
    ranks = missing or others
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {ranks_text(ranks)}" if missing else f"one of ranks {ranks_text(ranks)}, which wait too,"


def ranks_text(ranks: Sequence[int]) -> str:
    """At most eight ranks by number, the others counted."""
    shown = ", ".join(map(str, ranks[:8]))
    return shown if len(ranks) <= 8 else f"{shown} and {len(ranks) - 8} more"
