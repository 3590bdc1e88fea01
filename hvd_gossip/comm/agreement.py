"""What ranks agree on before they act together: that none has an error, and that all mean the same.

A sum of a few numbers tells whether they do, one small message per rank and step of the sum; only when they do not are
texts gathered, to say who differs in what. A rank that never comes is named by those who wait for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hvd_gossip.comm import watchdog
from hvd_gossip.comm.roll_call import RollCall, ranks_text

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


class Agreement:
    """Agreement among the ranks of a communicator, which all call the same methods in the same order.

    Args:
        comm: the ranks; nobody else uses it at the same time in another thread.

    Attributes:
        comm: the same; rank, size: this process in it.
    """

    def __init__(self, comm: Intracomm) -> None:
        self.comm = comm
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        self.roll_call = RollCall(comm)
        self._calls = 0

    def total(self, numbers: Sequence[int], purpose: str) -> list[int]:
        """The sums over all ranks of some numbers, modulo 2^64; `purpose` stands in the report of a rank that waits."""
        self._calls += 1
        values, totals = np.array(numbers, np.uint64), np.empty(len(numbers), np.uint64)
        request = self.comm.Iallreduce(values, totals)
        others = [rank for rank in range(self.size) if rank != self.rank]
        whom = self.roll_call.whom("agreement", self._calls, others, lambda who: f"{who} to {purpose}")
        watchdog.wait(request.Test, whom)
        return totals.tolist()

    def raise_together(self, error: str | None, kind: type[Exception] = ValueError) -> None:
        """Raise on every rank alike when any rank has an error to report.

        Args:
            error: this rank's message, or None.
            kind: what is raised.

        Raises:
            kind: some rank has an error; the message names the ranks, and its attribute `agreed` is True.
        """
        if self.total([error is not None], "tell whether it has an error")[0]:
            raise_together(self.comm, error, kind)

    def together(self, action: Callable[[], Any], kind: type[Exception] = ValueError) -> Any:
        """Run `action` on every rank and return its value; an error on one rank is raised on all."""
        value, error, cause = attempt(action)
        try:
            self.raise_together(error, kind)
        except kind as raised:
            raise raised from cause
        return value

    def same(self, value: Any, purpose: str) -> bool:
        """Whether all ranks hold a value of the same `repr`."""
        number = digest(value)
        return self.total([number], purpose)[0] == number * self.size % 2**64

    def agree(self, what: str, value: Any) -> None:
        """Refuse on every rank when the ranks do not hold the same value.

        Raises:
            ValueError: names the first rank that differs from rank 0.
        """
        if self.same(value, f"compare {what}"):
            return
        values = self.comm.allgather(value)
        odd = next((rank for rank, other in enumerate(values) if other != values[0]), None)
        if odd is not None:
            raise agreed(f"{what} differs between ranks: rank 0 has {values[0]}, rank {odd} has {values[odd]}")

    def agree_each(self, values: Mapping[str, Any]) -> None:
        """Refuse on every rank when one of several named values is not the same everywhere.

        Raises:
            ValueError: names the first of them that differs, and the first rank.
        """
        if not self.same(dict(values), f"compare {', '.join(values)}"):
            for name, value in values.items():
                self.agree(name, value)


def attempt(action: Callable[[], Any]) -> tuple[Any, str | None, Exception | None]:
    """The value of an action, or in its place the message and the error."""
    try:
        return action(), None, None
    except Exception as caught:
        return None, str(caught) or type(caught).__name__, caught


def digest(value: Any) -> int:
    """64 well-mixed bits of what a value looks like."""
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=8).digest())


def agreed(text: str, kind: type[Exception] = ValueError) -> Exception:
    """An error that every rank raises alike, as its attribute `agreed` tells."""
    failure = kind(text)
    failure.agreed = True  # type: ignore[attr-defined]
    return failure


def raise_together(comm: Intracomm, error: str | None, kind: type[Exception] = ValueError) -> None:
    """Gather the errors of all ranks, and raise on every rank alike when there are any."""
    errors: list[str | None] = comm.allgather(error)
    first = next((message for message in errors if message is not None), None)
    if first is None:
        return
    ranks = [rank for rank, message in enumerate(errors) if message is not None]
    others = {message for message in errors if message not in (None, first)}
    where = "" if len(ranks) == comm.Get_size() else f" (on rank{'s' * (len(ranks) > 1)} {ranks_text(ranks)})"
    more = "".join(f"; also: {message}" for message in sorted(map(str, others)))
    raise agreed(f"{first}{where}{more}", kind)
