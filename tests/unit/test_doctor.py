"""The doctor: which MPI a text speaks of, and advice on made-up machines."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from hvd_gossip import doctor
from hvd_gossip.comm import horovod_allreduce
from hvd_gossip.comm.launcher import SIZE

OPEN_MPI = "Open MPI v5.0.11"
MPIRUN = "/opt/bin/mpirun (mpirun (Open MPI) 5.0.11)"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (OPEN_MPI, "Open MPI"),
        (MPIRUN, "Open MPI"),
        ("mpirun (PRRTE) 3.0.9", "Open MPI"),
        ("/usr/lib64/openmpi/bin/mpirun (something)", "Open MPI"),
        ("MPICH Version:      5.0.2", "MPICH"),
        ("/usr/bin/mpirun (HYDRA build details)", "MPICH"),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.13", "MPICH"),
        ("MPI VERSION    : CRAY MPICH version 8.1.29", "MPICH"),
        ("no mpirun on the PATH", None),
        ("", None),
        ("SunOS HPC", None),
    ],
)
def test_family(text: str, name: str | None) -> None:
    assert doctor.family(text) == name


HYDRA = """HYDRA build details:
    Version:                                 5.0.2
    Release Date:                            Fri Jan 17 13:14:28 CST 2025
    CC:                              gcc
"""


@pytest.mark.parametrize(
    ("answer", "family", "version"),
    [
        (HYDRA, "MPICH", "5.0.2"),
        ("mpirun (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/\n", "Open MPI", "5.0.11"),
        ("mpirun (IBM Something) 10.3\n", None, "10.3"),
        ("", None, "no answer"),
    ],
)
def test_the_launcher_is_asked_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, family: str | None, version: str
) -> None:
    (tmp_path / "answer").write_text(answer)
    (tmp_path / "mpirun").write_text(f"#!/bin/sh\n[ $1 = --version ] && exec cat {tmp_path / 'answer'}\n")
    (tmp_path / "mpirun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    # The name of the test's folder must not tell what the answer does not.
    assert doctor.family(str(tmp_path)) is None
    found = doctor.launcher_version()
    assert found.startswith(str(tmp_path / "mpirun"))
    assert version in found
    assert doctor.family(found) == family


def test_no_launcher_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.launcher_version() == "no mpirun on the PATH"


def test_versions_of_packages() -> None:
    import numpy

    assert doctor.version("numpy") == numpy.__version__
    assert doctor.version("no-such-package-anywhere") == "not installed"


class Machine:
    """A made-up machine on which everything fits, to be spoilt by a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.facts = {"MPI library": OPEN_MPI, "MPI launcher": MPIRUN}
        self.set(size=1, level=3, horovod=True)
        for name in SIZE:
            monkeypatch.delenv(name, raising=False)

    def set(self, size: int = 1, level: int = 3, horovod: bool = True) -> None:
        """How many processes MPI sees, its thread level of 0 to 3, and whether Horovod is there."""
        world = SimpleNamespace(Get_size=lambda: size)
        mpi = SimpleNamespace(
            COMM_WORLD=world,
            Query_thread=lambda: level,
            THREAD_MULTIPLE=3,
            Get_library_version=lambda: f"{OPEN_MPI}, package: made up\nsecond line",
        )
        self.monkeypatch.setattr(doctor, "MPI", mpi)
        self.monkeypatch.setattr(horovod_allreduce, "installed", lambda: horovod)

    def advice(self) -> list[str]:
        return list(doctor.advice(self.facts))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_no_advice_where_everything_fits(machine: Machine) -> None:
    assert machine.advice() == []


def test_two_mpis(machine: Machine) -> None:
    machine.facts["MPI launcher"] = "/usr/bin/mpirun (MPICH 5.0.2)"
    (told,) = machine.advice()
    assert "mpirun is of MPICH, but Python uses Open MPI: launch with the mpirun of Open MPI" in told


def test_no_launcher(machine: Machine) -> None:
    machine.facts["MPI launcher"] = "no mpirun on the PATH"
    (told,) = machine.advice()
    assert told.startswith("no known mpirun is on the PATH: source mpi_scripts/env.sh")


def test_an_mpi_of_unknown_family_is_not_called_none(machine: Machine) -> None:
    machine.facts["MPI library"] = "MVAPICH 4.0"
    assert not any("None" in told for told in machine.advice())


def test_each_process_believes_to_be_alone(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_SIZE", "4")
    (told,) = machine.advice()
    assert "the launcher started 4 processes (PMI_SIZE=4), but MPI sees only 1" in told
    machine.set(size=4)
    assert machine.advice() == []


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_low_thread_level(machine: Machine, level: int) -> None:
    machine.set(level=level)
    (told,) = machine.advice()
    assert told.startswith("MPI_THREAD_MULTIPLE is missing")


def test_horovod_is_missing(machine: Machine) -> None:
    machine.set(horovod=False)
    (told,) = machine.advice()
    assert told.startswith("Horovod is missing")
    assert "--allreduce mpi" in told


def test_every_problem_has_its_sentence(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_SIZE", "4")
    machine.set(level=1, horovod=False)
    machine.facts["MPI launcher"] = "no mpirun on the PATH"
    assert len(machine.advice()) == 4


def test_the_report_ends_with_the_advice_or_says_that_there_is_none(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "launcher_version", lambda: MPIRUN)
    lines = doctor.report().splitlines()
    assert lines[-1] == "no problem found"
    assert any(line.split()[:2] == ["MPI", "library"] and line.endswith(OPEN_MPI) for line in lines)
    assert any(line.split() == ["thread", "level", "MPI_THREAD_MULTIPLE"] for line in lines)
    machine.set(level=0, horovod=False)
    ends = doctor.report().splitlines()[-2:]
    assert [line[:2] for line in ends] == ["! ", "! "]
