"""The processes of this job: a duplicate of the user's communicator, ranks, and agreement on errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from hvd_gossip.comm import ending, launcher, mpi as MPI
from hvd_gossip.comm.agreement import Agreement

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


class World(Agreement):
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
        self._named = 0
        super().__init__(user.Dup())
        # Launchers may number the ranks of a node in an order of their own.
        launched = launcher.told(launcher.LOCAL_RANK)
        node = self.comm.Split_type(MPI.COMM_TYPE_SHARED, key=launched[1] if launched else self.rank)
        self.node = cast("Intracomm", node)
        self.local_rank: int = self.node.Get_rank()
        self.local_size: int = self.node.Get_size()
        if self.covers_all and (warning := launcher.check_local_rank(self.local_rank)):
            warnings.warn(warning, RuntimeWarning, stacklevel=2)

    def name(self, kind: str) -> str:
        """A name for something that all ranks build in one order, another one each time."""
        self._named += 1
        return f"{kind} {self._named}"

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
