"""An error on one rank ends the whole job, with that rank's traceback; nothing hangs."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest
from conftest import finish, start

FAILS = """
import torch, hvd_gossip.torch as hvd
hvd.init()
model = torch.nn.Linear(4, 2)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.1), graph="ring", algorithm=ALGORITHM, allreduce="mpi")
for step in range(1000000):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).sum().backward()
    if step == 5 and hvd.rank() == 2:
        raise ArithmeticError("what went wrong at step 5")
    optimizer.step()
"""
IN_A_THREAD = """
import threading, hvd_gossip.torch as hvd
hvd.init()
def work():
    raise ArithmeticError("in a thread")
if hvd.rank() == 1:
    threading.Thread(target=work).start()
hvd.broadcast_object(1, 1 if hvd.rank() else 0) if hvd.rank() != 1 else threading.Event().wait()
"""
FOREVER = """
import os, sys, time, torch, hvd_gossip.torch as hvd
hvd.init()
print(os.getpid(), flush=True)
while True:
    hvd.allreduce(torch.ones(1)); time.sleep(0.01)
"""


@pytest.mark.parametrize("algorithm", ["dpsgd", "allreduce"])
def test_an_error_on_rank_2_at_step_5_ends_the_job(script, algorithm):
    job = script(4, FAILS.replace("ALGORITHM", repr(algorithm)))
    assert job.status != 0
    assert job.seconds < 30
    assert "Rank 2 of 4 failed; the job ends." in job.err
    assert "ArithmeticError: what went wrong at step 5" in job.err
    assert "Traceback (most recent call last)" in job.err


def test_an_error_in_a_thread_ends_the_job(script):
    job = script(2, IN_A_THREAD)
    assert job.status != 0
    assert "ArithmeticError: in a thread" in job.err


LEAVES = FAILS.replace('raise ArithmeticError("what went wrong at step 5")', "sys.exit(STATUS)").replace(
    "import torch,", "import sys, torch,"
)


@pytest.mark.parametrize(("status", "expected"), [(3, 3), ("no data on this rank", 1)])
def test_a_rank_that_leaves_with_an_error_ends_the_job(script, status, expected):
    job = script(4, LEAVES.replace("ALGORITHM", "'dpsgd'").replace("STATUS", repr(status)))
    assert job.status == expected
    assert job.seconds < 30
    assert f"Rank 2 of 4 left by sys.exit({status!r}), others go on; the job ends." in job.err


SLOW_EXIT = """
import sys, time, hvd_gossip.torch as hvd
hvd.init()
try:
    sys.exit(7)  # caught: no failure
except SystemExit:
    pass
time.sleep(2 * hvd.rank())
sys.exit(0)
"""


def test_ranks_that_leave_one_after_the_other_are_no_failure(script):
    job = script(2, SLOW_EXIT)
    assert job.status == 0, job.text


NULL = """
import hvd_gossip.torch as hvd
from mpi4py import MPI
comm = MPI.COMM_WORLD.Split(0 if MPI.COMM_WORLD.rank == 0 else MPI.UNDEFINED)
hvd.init(comm)
MPI.COMM_WORLD.Barrier()
"""


def test_the_null_communicator_is_refused_and_the_job_ends(script):
    job = script(2, NULL)
    assert job.status != 0
    assert "ValueError: got the null communicator" in job.err


STALLS = """
import time, torch, hvd_gossip.torch as hvd
hvd.init()
model = torch.nn.Linear(4, 2)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), graph="ring")
model(torch.ones(1, 4)).sum().backward()
optimizer.step()
if hvd.rank() == 1:
    time.sleep(4)
optimizer.step()
"""


def test_a_rank_that_waits_long_says_for_whom(script):
    job = script(2, STALLS, HVD_GOSSIP_STALL_SECONDS="1")
    assert job.status == 0, job.text
    told = "rank 0 has waited 1 s for rank 1 in round 1 of graph 'ring': have all ranks the same number of steps"
    assert job.err.count(told) == 1


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_mpirun_ends_every_rank(tmp_path, by):
    path = tmp_path / "forever.py"
    path.write_text(FOREVER)
    process = start(2, sys.executable, path)
    pids = [int(process.stdout.readline()) for _ in range(2)]
    process.send_signal(by)
    job = finish(process)
    assert job.status != 0
    for pid in pids:
        for _ in range(100):
            if not alive(pid):
                break
            time.sleep(0.1)
        assert not alive(pid)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_ranks_that_each_believe_to_be_alone_are_refused(tmp_path):
    """As under `horovodrun --gloo`, or with the mpirun of another MPI."""
    import subprocess

    environment = {**os.environ, "HOROVOD_SIZE": "4", "HOROVOD_RANK": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "import hvd_gossip.torch as hvd; hvd.init()"],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "the launcher started 4 processes (HOROVOD_SIZE=4), but MPI sees only 1" in done.stderr
