"""What the launcher (mpirun, horovodrun, srun, jsrun) told this process through its environment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

SIZE = (
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "PMIX_SIZE",
    "MV2_COMM_WORLD_SIZE",
    "MPI_LOCALNRANKS_WORLD",
    "SLURM_STEP_NUM_TASKS",
    "JSM_NAMESPACE_SIZE",
    "PALS_SIZE",
    "HOROVOD_SIZE",
)
RANK = (
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMIX_RANK",
    "MV2_COMM_WORLD_RANK",
    "SLURM_PROCID",
    "JSM_NAMESPACE_RANK",
    "PALS_RANKID",
    "HOROVOD_RANK",
)
LOCAL_RANK = (
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "SLURM_LOCALID",
    "JSM_NAMESPACE_LOCAL_RANK",
    "PALS_LOCAL_RANKID",
    "HOROVOD_LOCAL_RANK",
)


def told(names: Iterable[str], environment: Mapping[str, str] = os.environ) -> tuple[str, int] | None:
    """The first of these variables that holds a number, and the number.

    Example:
        >>> told(SIZE, {"PMI_SIZE": "4"})
        ('PMI_SIZE', 4)
    """
    for name in names:
        if environment.get(name, "").isdecimal():
            return name, int(environment[name])
    return None


def check_size(size: int, library: str, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse to run as n processes that each believe to be alone.

    Raises:
        RuntimeError: MPI says 1 process, the launcher says more.
    """
    launched = told(SIZE, environment)
    if size == 1 and launched is not None and launched[1] > 1:
        raise RuntimeError(
            f"the launcher started {launched[1]} processes ({launched[0]}={launched[1]}), but MPI sees only 1: the MPI "
            f"of this Python ({library}) is not the one that launched it. Launch with the mpirun of the same MPI "
            "(`hvd-gossip doctor` prints both); with horovodrun use --mpi, not --gloo; in a container, host and "
            "container must have compatible MPIs"
        )


def check_local_rank(local_rank: int, environment: Mapping[str, str] = os.environ) -> str | None:
    """A warning when the launcher's local rank is not the one that MPI's shared-memory split gives, else None."""
    launched = told(LOCAL_RANK, environment)
    if launched is None or launched[1] == local_rank:
        return None
    return (
        f"local rank {local_rank} (processes that share memory) differs from {launched[0]}={launched[1]}: "
        "is every rank in a container of its own? The first is used; set CUDA devices by the launcher if it is wrong"
    )
