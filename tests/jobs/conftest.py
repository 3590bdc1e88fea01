"""Tests that start whole jobs by mpirun and look at what a user would see: exit status, output, files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT = 100
"""Seconds after which a job counts as hanging."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # A test starts up to a dozen jobs, each with a limit of its own.
        item.add_marker(pytest.mark.timeout(12 * LIMIT))
    if shutil.which("mpirun") is None:
        for item in items:
            item.add_marker(pytest.mark.skip(reason="no mpirun on the PATH: source mpi_scripts/env.sh"))


@dataclass
class Job:
    """A job that has ended: status, output, errors, seconds."""

    status: int
    out: str
    err: str
    seconds: float

    @property
    def text(self) -> str:
        return self.out + self.err


def start(n: int, *command: str | Path, **environment: str) -> subprocess.Popen[str]:
    """Start a command on n ranks."""
    return subprocess.Popen(
        ["mpirun", "-n", str(n), *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def finish(process: subprocess.Popen[str], begin: float | None = None) -> Job:
    """Wait for a job; one that hangs is ended and fails the test."""
    begin = time.monotonic() if begin is None else begin
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.terminate()
        out, err = process.communicate(timeout=20)
        pytest.fail(f"the job hangs\n{out}\n{err}")
    return Job(process.returncode, out, err, time.monotonic() - begin)


@pytest.fixture
def run() -> Callable[..., Job]:
    """Run a command on n ranks to its end."""
    return lambda n, *command, **environment: finish(start(n, *command, **environment))


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., Job]:
    """Run `hvd-gossip train` on n ranks in a temporary folder."""

    def call(n: int, *options: str, **environment: str) -> Job:
        return finish(start(n, "hvd-gossip", "train", *options, **environment))

    return call


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Job]:
    """Run a script, given as text, on n ranks."""

    def call(n: int, text: str, *arguments: str, **environment: str) -> Job:
        path = tmp_path / "script.py"
        path.write_text(text)
        return finish(start(n, sys.executable, path, *arguments, **environment))

    return call
