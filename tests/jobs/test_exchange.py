"""Exchanges in which a rank dies, sleeps, or raises; and the command that measures exchanges."""

from __future__ import annotations

import json

import pytest

EXCHANGE = """
import os, signal, sys, time, torch, hvd_gossip.torch as hvd
hvd.init()
model = torch.nn.Linear(400, 200)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.1), graph="ring", algorithm=ALGORITHM, overlap=OVERLAP)
for step in range(8):
    optimizer.zero_grad()
    model(torch.randn(8, 400)).sum().backward()
    if step == 5 and hvd.rank() == 2:
        HAPPENS
    optimizer.step()
hvd.consensus_distance(model)
print(f"rank {hvd.rank()} is through", flush=True)
"""
WAYS = [("dpsgd", "None"), ("dpsgd:order=awc", "model")]


def text(happens: str, algorithm: str = "dpsgd", overlap: str = "None") -> str:
    named = EXCHANGE.replace("ALGORITHM", repr(algorithm)).replace("OVERLAP", overlap)
    return named.replace("HAPPENS", happens)


@pytest.fixture(params=["1", "0"], ids=["shared", "messages"])
def path(request) -> dict[str, str]:
    """Either way that parameters can take between ranks of a node."""
    return {"HVD_GOSSIP_SHARED_MEMORY": request.param}


@pytest.mark.parametrize(("algorithm", "overlap"), WAYS)
def test_a_rank_that_dies_ends_the_job(script, path, algorithm, overlap):
    job = script(4, text("os.kill(os.getpid(), signal.SIGKILL)", algorithm, overlap), **path)
    assert job.status != 0
    assert job.seconds < 40
    assert "is through" not in job.out


@pytest.mark.parametrize(("algorithm", "overlap"), WAYS)
def test_a_rank_that_raises_ends_the_job(script, path, algorithm, overlap):
    job = script(4, text("raise ArithmeticError('in mid-exchange')", algorithm, overlap), **path)
    assert job.status != 0
    assert job.seconds < 40
    assert "ArithmeticError: in mid-exchange" in job.err
    assert "Rank 2 of 4 failed" in job.err


@pytest.mark.parametrize(("algorithm", "overlap"), WAYS)
def test_a_rank_that_sleeps_is_named_and_awaited(script, path, algorithm, overlap):
    job = script(4, text("time.sleep(4)", algorithm, overlap), HVD_GOSSIP_STALL_SECONDS="1", **path)
    assert job.status == 0
    assert job.out.count("is through") == 4
    told = [line for line in job.err.splitlines() if "has waited" in line]
    # What goes on behind the passes is through without the rank that sleeps before its step: the next round waits.
    late = 5 if overlap == "None" else 6
    assert any(f"round {late} of graph 'ring'" in line and ("rank 2" in line or ", 2" in line) for line in told), (
        job.err
    )
    assert "The job ends" not in job.err


def test_a_rank_that_sleeps_too_long_ends_the_job(script, path):
    limits = {"HVD_GOSSIP_STALL_SECONDS": "1", "HVD_GOSSIP_STALL_END_SECONDS": "3"}
    job = script(4, text("time.sleep(1000)"), **limits, **path)
    assert job.status != 0
    assert job.seconds < 40
    assert "The job ends." in job.err


def test_the_files_of_a_job_that_was_killed_are_gone(script, tmp_path):
    from pathlib import Path

    before = {file.name for file in Path("/dev/shm").glob("hvd_gossip-*")}
    script(4, text("os.kill(os.getpid(), signal.SIGKILL)"))
    assert {file.name for file in Path("/dev/shm").glob("hvd_gossip-*")} <= before


def test_bench_measures_what_was_asked_for(run, tmp_path):
    json_file, picture = tmp_path / "times.json", tmp_path / "times.png"
    job = run(
        2,
        "hvd-gossip",
        "bench",
        "--sizes=[4KB,64KB]",
        "--shapes=[resnet50]",
        "--graphs=[ring,random_ring]",
        "--wires=[none,bf16]",
        "--step=cnn",
        "--batch=4",
        "--seconds=0.5",
        f"--json={json_file}",
        f"--plot={picture}",
    )
    assert job.status == 0, job.text
    assert "resnet50's parameters, 2 ranks" in job.out
    found = json.loads(json_file.read_text())
    assert [result["bytes"] for result in found["results"]] == [4000, 64000, 4 * 25_557_032, None]
    assert found["ranks"] == 2
    for result in found["results"]:
        names = {candidate["name"]: candidate for candidate in result["candidates"]}
        assert all(len(candidate["seconds"]) >= 5 for candidate in names.values())
        if result["bytes"]:
            assert {"memory copy", "MPI allreduce", "floor: ring in shared memory", "gossip ring, shared"} <= set(names)
            sent = names["gossip ring, messages"]["sent_bytes"]
            assert sent == pytest.approx(result["bytes"], rel=0.02)  # each parameter begins at a multiple of 64 bytes
            assert names["gossip ring, messages, bf16"]["sent_bytes"] == sent / 2
            assert names["gossip random_ring, shared"]["sent_messages"] == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--sizes=[4KX]", "got size '4KX': expected bytes"),
        ("--sizes=[3B]", "got size '3B': expected bytes, at least 4"),
        ("--graphs=[rng]", "did you mean 'ring'"),
        ("--paths=[mesages]", "did you mean 'messages'"),
        ("--wires=[fp8]", "unknown wire 'fp8'"),
        ("--step=resnet", "unknown model 'resnet'"),
        ("--plot=times.pdf", "expected a name that ends in .png"),
    ],
)
def test_bench_refuses_what_it_cannot_measure(run, option, message):
    job = run(2, "hvd-gossip", "bench", option)
    assert job.status == 2, job.text
    assert job.err.count(message) == 1
    assert "Traceback" not in job.text
