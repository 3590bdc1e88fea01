"""How a job ends: together, or at once when one rank fails, so that no rank waits for one that is gone."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import traceback
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from hvd_gossip.comm import mpi as MPI

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

GRACE = 5.0
"""Seconds that a rank which leaves by `sys.exit` with a status other than 0 waits for the others to leave too."""

_status: Any = None
_departure: Intracomm | None = None


def end_job_on_uncaught_error() -> None:
    """From now on an uncaught error on one rank, in any thread, shows its traceback and ends the whole job."""
    if MPI.COMM_WORLD.Get_size() == 1 or sys.excepthook is _end_job:
        return
    sys.excepthook = _end_job
    threading.excepthook = lambda args: _end_job(args.exc_type, args.exc_value, args.exc_traceback)


def _end_job(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    if kind is SystemExit:
        return
    rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    text = "".join(traceback.format_exception(kind, error, trace))
    # One write, so that the tracebacks of several ranks do not mix.
    sys.stdout.flush()
    sys.stderr.write(f"\nRank {rank} of {size} failed; the job ends.\n{text}")
    sys.stderr.flush()
    abort(130 if kind is KeyboardInterrupt else 1)


def abort(status: int) -> None:
    """End all processes of the job at once with this exit status."""
    MPI.COMM_WORLD.Abort(status)
    os._exit(status)


def leave_together(comm: Intracomm) -> None:
    """At the end of the program wait for the other ranks; a rank that `sys.exit` ended with an error does not for long.

    No hook sees an uncaught SystemExit, so the status is noted where it is raised.

    Args:
        comm: the ranks; it is duplicated.
    """
    global _departure
    if comm.Get_size() == 1 or _departure is not None:
        return
    _departure = comm.Dup()
    sys.exit = _exit
    atexit.register(_leave)


def _exit(status: Any = None, /) -> NoReturn:
    global _status
    _status = status
    raise SystemExit(status)


def _leave() -> None:
    if MPI.Is_finalized() or _departure is None:
        return
    together, begin = _departure.Ibarrier(), time.monotonic()
    # Horovod, where it has started MPI, ends it as soon as one rank has left: this rank may still be here then.
    while not MPI.Is_finalized() and not together.Test():
        if _status not in (None, 0) and time.monotonic() - begin > GRACE:
            rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
            sys.stderr.write(f"\nRank {rank} of {size} left by sys.exit({_status!r}), others go on; the job ends.\n")
            sys.stderr.flush()
            abort(_status if isinstance(_status, int) else 1)
        time.sleep(1e-3)
