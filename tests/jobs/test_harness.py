"""The parallel test run itself: a failure on one rank is reported, and no failure hangs it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import ROOT

TESTS = """
import time
import pytest
from mpi4py import MPI
comm = MPI.COMM_WORLD

def test_before():
    assert comm.allreduce(1) == comm.size

def test_the_one():
    if comm.rank == 1:
        DO
    AFTER

def test_after():
    assert comm.allreduce(1) == comm.size
"""
FAIL = 'assert comm.rank == 0, "the last rank knows why"'


@pytest.fixture
def session(run, tmp_path):
    """Run made-up tests under the real conftest on two ranks."""

    def call(do: str, after: str = "pass"):
        (tmp_path / "conftest.py").write_text((ROOT / "tests" / "mpi" / "conftest.py").read_text())
        (tmp_path / "test_made_up.py").write_text(TESTS.replace("DO", do).replace("AFTER", after))
        limits = {"HVD_GOSSIP_TEST_GRACE": "3", "HVD_GOSSIP_TEST_LIMIT": "6"}
        options = (
            "--color=no",
            "-p",
            "no:cacheprovider",
            "--timeout=30",
            "--timeout-method=thread",
            f"--rootdir={tmp_path}",
        )
        return run(2, sys.executable, "-m", "pytest", *options, str(tmp_path), **limits)

    return call


def test_a_failure_on_one_rank_is_reported_and_the_run_finishes(session):
    job = session(FAIL)
    assert job.status != 0
    assert "rank 1 of 2:" in job.out
    assert "the last rank knows why" in job.out
    assert "1 failed, 2 passed" in job.out


def test_a_failure_while_the_others_wait_in_a_collective_ends_the_run(session):
    job = session(FAIL, "comm.Barrier()")
    assert job.status != 0
    assert "FAILED rank 1 of 2" in job.err
    assert "the last rank knows why" in job.err
    assert job.seconds < 30


def test_a_rank_that_hangs_ends_the_run(session):
    job = session("time.sleep(60)")
    assert job.status != 0
    assert "FAILED rank 0 of 2" in job.err
    assert "is done here, but not on every rank" in job.err
    assert job.seconds < 30


def test_results_of_several_runs_are_added_up(tmp_path):
    import subprocess

    junit = '<testsuites><testsuite tests="5" errors="0" failures="{}" skipped="1"></testsuite></testsuites>'
    (tmp_path / "unit.xml").write_text(junit.format(0))
    (tmp_path / "mpi-n2.xml").write_text(junit.format(2))
    (tmp_path / "checks").write_text("lint 0\ntypes 1\nunit 0\nmpi-n2 1\nmpi-n4 9\n")
    command = [sys.executable, str(ROOT / "mpi_scripts" / "count_results.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "7 passed, 4 failed, 2 skipped"
    assert Path(tmp_path / "checks").exists()
