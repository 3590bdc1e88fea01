"""pytest on every rank at once: `mpirun -n N python -m pytest tests/mpi`.

After each phase of each test the ranks tell each other how it went.  A failure on one rank is a failure on all, and
rank 0 shows where it happened.  A rank that failed while the others wait in a collective, or a rank that does not
come back, ends the whole run within a time limit, with its report: nothing hangs.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

from hvd_gossip.comm import world

COMM = MPI.COMM_WORLD.Dup()
RANK, SIZE = COMM.Get_rank(), COMM.Get_size()
GRACE = float(os.environ.get("HVD_GOSSIP_TEST_GRACE", "20"))
"""Seconds a rank that failed waits for the others to leave the test too."""
LIMIT = float(os.environ.get("HVD_GOSSIP_TEST_LIMIT", "110"))
"""Seconds a rank that passed waits for the others."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Only rank 0 reports; each rank has temporary folders of its own, or they would clean up one another's."""
    if RANK:
        config.option.xmlpath = None
    if config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix=f"hvd_gossip-rank{RANK}-")
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    if RANK and reporter is not None:
        reporter._tw._file = Path(os.devnull).open("w")


def pytest_report_header() -> str:
    return f"ranks: {SIZE}, {MPI.Get_library_version().splitlines()[0].split(',')[0]}"


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    report = yield
    if SIZE == 1:
        return report
    failed = bool(report.failed)
    if not meet(failed, GRACE if failed else LIMIT):
        end_run(item, report, failed)
    outcomes = COMM.allgather((report.outcome, report.longreprtext if failed else ""))
    if not failed and any(outcome == "failed" for outcome, _ in outcomes):
        parts = [
            f"rank {rank} of {SIZE}:\n{text}" for rank, (outcome, text) in enumerate(outcomes) if outcome == "failed"
        ]
        report.outcome, report.longrepr = "failed", "\n".join(parts)
    return report


def meet(failed: bool, limit: float) -> bool:
    """Wait until every rank has finished this phase; False when the limit passes first."""
    mine, all_ranks = np.array([failed], "b"), np.empty(SIZE, "b")
    request = COMM.Iallgather(mine, all_ranks)
    begin = time.monotonic()
    while not request.Test():
        if time.monotonic() - begin > limit:
            return False
        time.sleep(1e-4)
    return True


def end_run(item: pytest.Item, report: pytest.TestReport, failed: bool) -> None:
    """Say on standard error what happened, and end all ranks."""
    capture = item.config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)
    what = f"failed here\n{report.longreprtext}" if failed else "is done here, but not on every rank"
    sys.stderr.write(f"\nFAILED rank {RANK} of {SIZE}: {item.nodeid} ({report.when}) {what}\nThe run ends.\n")
    sys.stderr.flush()
    COMM.Abort(1)


@pytest.fixture(autouse=True)
def _collected():
    """MPI objects are freed on all ranks before the next test, not whenever one rank's collector comes along."""
    yield
    gc.collect()


@pytest.fixture
def here():
    """The ranks of this run."""
    world.start()
    yield world.current()
    world.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Rank 0's temporary folder, the same on every rank."""
    return COMM.bcast(tmp_path, root=0)
