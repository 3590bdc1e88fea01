"""`mpi4py.MPI`, imported at first use.

Importing `mpi4py.MPI` starts MPI.  A data-loader worker that is spawned by a training script imports the same modules
as the script; it must not become a second process with its parent's rank.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    from mpi4py import MPI

    return getattr(MPI, name)
