"""The processes of this job: a duplicate of the user's communicator, ranks, and agreement on errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from hvd_gossip.comm import ending, launcher, mpi as MPI

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


class World:
    """All ranks of a communicator, on a duplicate of it, so that no message of ours meets one of the user's.

    Args:
        comm: an mpi4py communicator; `MPI.COMM_WORLD` when left out.

    Attributes:
        comm: the duplicate; rank, size: this process in it.
        local_rank, local_size: this process among those that share its memory.

    Raises:
        RuntimeError: the launcher started several processes and MPI sees one.
    """

    def __init__(self, comm: Intracomm | None = None) -> None:
        user = MPI.COMM_WORLD if comm is None else comm
        self.covers_all = bool(MPI.Comm.Compare(user, MPI.COMM_WORLD) in (MPI.IDENT, MPI.CONGRUENT))
        if self.covers_all:
            launcher.check_size(user.Get_size(), MPI.Get_library_version().splitlines()[0])
        self._owned: list[Callable[[], None]] = []
        self.comm = user.Dup()
        self.rank: int = self.comm.Get_rank()
        self.size: int = self.comm.Get_size()
        # Launchers may number the ranks of a node in an order of their own.
        launched = launcher.told(launcher.LOCAL_RANK)
        node = self.comm.Split_type(MPI.COMM_TYPE_SHARED, key=launched[1] if launched else self.rank)
        self.node = cast("Intracomm", node)
        self.local_rank: int = self.node.Get_rank()
        self.local_size: int = self.node.Get_size()
        if self.covers_all and (warning := launcher.check_local_rank(self.local_rank)):
            warnings.warn(warning, RuntimeWarning, stacklevel=2)

    def raise_together(self, error: str | None, kind: type[Exception] = ValueError) -> None:
        """Raise on every rank alike when any rank has an error to report.

        Args:
            error: this rank's message, or None.
            kind: what is raised.

        Raises:
            kind: some rank has an error; the message names the ranks, and its attribute `agreed` is True.
        """
        raise_together(self.comm, error, kind)

    def together(self, action: Callable[[], Any], kind: type[Exception] = ValueError) -> Any:
        """Run `action` on every rank and return its value; an error on one rank is raised on all."""
        value, error, cause = None, None, None
        try:
            value = action()
        except Exception as caught:
            error, cause = str(caught) or type(caught).__name__, caught
        try:
            self.raise_together(error, kind)
        except kind as raised:
            raise raised from cause
        return value

    def agree(self, what: str, value: Any) -> None:
        """Refuse on every rank when the ranks do not hold the same value.

        Raises:
            ValueError: names the first rank that differs from rank 0.
        """
        values = self.comm.allgather(value)
        odd = next((rank for rank, other in enumerate(values) if other != values[0]), None)
        if odd is not None:
            self.raise_together(f"{what} differs between ranks: rank 0 has {values[0]}, rank {odd} has {values[odd]}")

    def own(self, free: Callable[[], None]) -> None:
        """Remember how to free something built on this world; `free` does it, the last one first."""
        self._owned.append(free)

    def free(self) -> None:
        """Give the communicators back to MPI; calling it again, or after MPI has ended, does nothing."""
        if MPI.Is_finalized():
            return
        while self._owned:
            self._owned.pop()()
        for comm in (self.node, self.comm):
            if comm != MPI.COMM_NULL:
                comm.Free()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *exception: object) -> None:
        self.free()


def raise_together(comm: Intracomm, error: str | None, kind: type[Exception] = ValueError) -> None:
    """Raise on every rank of a communicator alike when any of them has an error to report."""
    errors: list[str | None] = comm.allgather(error)
    first = next((message for message in errors if message is not None), None)
    if first is None:
        return
    ranks = [rank for rank, message in enumerate(errors) if message is not None]
    others = {message for message in errors if message not in (None, first)}
    where = "" if len(ranks) == comm.Get_size() else f" (on rank{'s' * (len(ranks) > 1)} {ranks_text(ranks)})"
    more = "".join(f"; also: {message}" for message in sorted(map(str, others)))
    failure = kind(f"{first}{where}{more}")
    failure.agreed = True  # type: ignore[attr-defined]
    raise failure


def ranks_text(ranks: Sequence[int]) -> str:
    """At most eight ranks by number, the others counted."""
    shown = ", ".join(map(str, ranks[:8]))
    return shown if len(ranks) <= 8 else f"{shown} and {len(ranks) - 8} more"


_current: World | None = None


def start(comm: Intracomm | None = None) -> World:
    """Make the world that `current` returns; a second call leaves it as it is."""
    global _current
    ending.end_job_on_uncaught_error()
    check_communicator(comm)
    if _current is None:
        _current = World(comm)
        ending.leave_together(_current.comm)
    return _current


def check_communicator(comm: Any) -> None:
    """Refuse what is no communicator, or one of which this process is no part; None means all processes.

    Raises:
        ValueError: says which of the two.
    """
    if comm is not None and not hasattr(comm, "Dup"):
        raise ValueError(f"got comm of type {type(comm).__name__}: expected an mpi4py communicator, or nothing")
    if comm is not None and not comm:
        raise ValueError("got the null communicator: only its ranks call init, the others train nothing")


def current() -> World:
    """The world made by `start`.

    Raises:
        ValueError: `start` has not been called.
    """
    if _current is None:
        raise ValueError("hvd_gossip is not initialized: call hvd_gossip.torch.init() first")
    return _current


def started() -> bool:
    """Whether `start` has been called, and `stop` not since."""
    return _current is not None


def stop() -> None:
    """Free the world made by `start`; MPI itself stays up until the process ends."""
    global _current
    if _current is not None:
        _current.free()
        _current = None
