"""What this machine and this environment hold, and what to do where they do not fit together."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from hvd_gossip.comm import horovod_allreduce, launcher, mpi as MPI

LEVELS = ("MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE")


def version(package: str) -> str:
    """The installed version of a package, or that it is missing."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def launcher_version() -> str:
    """What the mpirun on the PATH says it is."""
    path = shutil.which("mpirun")
    if path is None:
        return "no mpirun on the PATH"
    found = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False)
    lines = [line.strip() for line in (found.stdout or found.stderr).splitlines() if line.strip()]
    version = next((" " + " ".join(line.split()) for line in lines if line.startswith("Version:")), "")
    return f"{path} ({lines[0] if lines else 'no answer'}{version})"


def family(text: str) -> str | None:
    """Which MPI a version text speaks of."""
    names = {"open mpi": "Open MPI", "openmpi": "Open MPI", "open-mpi": "Open MPI", "prrte": "Open MPI"}
    names |= {"mpich": "MPICH", "hydra": "MPICH", "intel(r) mpi": "MPICH"}
    return next((name for key, name in names.items() if key in text.lower()), None)


def facts() -> Iterator[tuple[str, str]]:
    """Pairs of what and what was found."""
    yield "python", platform.python_version()
    for package in ("hvd_gossip", "torch", "mpi4py", "horovod", "numpy", "networkx"):
        yield package, version(package)
    yield "MPI library", MPI.Get_library_version().split("\n")[0].split(",")[0].strip()
    yield "MPI launcher", launcher_version()
    yield "thread level", LEVELS[MPI.Query_thread()]
    yield "processes", str(MPI.COMM_WORLD.Get_size())
    told = launcher.told(launcher.SIZE)
    yield "launcher's count", f"{told[1]} ({told[0]})" if told else "not launched by mpirun, horovodrun, srun or jsrun"
    yield "cores", str(len(os.sched_getaffinity(0)))
    shared = shutil.disk_usage("/dev/shm") if Path("/dev/shm").is_dir() else None
    yield "/dev/shm", f"{shared.free / 1e6:.0f} MB free of {shared.total / 1e6:.0f} MB" if shared else "missing"


def advice(found: dict[str, str]) -> Iterator[str]:
    """What to do, one sentence for each thing that does not fit."""
    library, runner = family(found["MPI library"]), family(found["MPI launcher"])
    if runner is None:
        yield "no known mpirun is on the PATH: source mpi_scripts/env.sh, or load the site's MPI module"
    elif library is not None and library != runner:
        yield (
            f"mpirun is of {runner}, but Python uses {library}: launch with the mpirun of {library}, or set the "
            "environment up again with HVD_GOSSIP_MPI=system"
        )
    try:
        launcher.check_size(MPI.COMM_WORLD.Get_size(), found["MPI library"])
    except RuntimeError as error:
        yield str(error)
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        yield "MPI_THREAD_MULTIPLE is missing: Horovod beside gossip would hang; use an MPI built with thread support"
    if not horovod_allreduce.installed():
        yield "Horovod is missing: run mpi_scripts/setup.sh, or train the baseline with --allreduce mpi"


def report() -> str:
    """All facts, then all advice."""
    found = dict(facts())
    width = max(map(len, found))
    lines = [f"{name:<{width}}  {value}" for name, value in found.items()]
    problems = list(advice(found))
    return "\n".join(
        [*lines, "", *(f"! {problem}" for problem in problems or ())] if problems else [*lines, "", "no problem found"]
    )
