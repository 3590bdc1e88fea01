"""`hvd-gossip train` as a job: refusals, interruption and resumption, skewed data, workers, no Horovod."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from conftest import finish, start

CHANGING = {"seconds", "compute_seconds_per_step", "communication_seconds_per_step", "communication_seconds"}


def records(run: Path) -> list[dict]:
    """What metrics.jsonl says, less what depends on the clock."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in CHANGING} for line in lines]


def newest(run: Path) -> Path:
    return max((run / "checkpoints").iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--graph", "rng"], "did you mean 'ring'?"),
        (["--epochs", "-3"], "epochs"),
        (["--data.batch_sise", "3"], "data.batch_sise"),
        (["--task", "cifar10"], "name the folder with data_batch_1"),
        (["--seed", "18446744073709551616"], "expected at most 4294967295"),
        (["--data.dirichlet", "1e308"], "expected at most 1e+06"),
        (["--optimizer.nesterov", "true", "--optimizer.momentum", "0"], "needs optimizer.name sgd"),
    ],
)
def test_mistakes_are_told_once_and_every_rank_ends_with_status_2(train, tmp_path, options, message):
    job = train(2, *options, "--run", str(tmp_path / "run"))
    assert job.status == 2
    assert message in job.err
    assert job.err.count("hvd-gossip: error:") == 1
    assert "Traceback" not in job.err
    assert not (tmp_path / "run").exists()


OPTIONS = ["--graph", "ring", "--algorithm", "dpsgd:order=awc", "--epochs", "60", "--data.dirichlet", "0.5"]


def test_interrupted_and_resumed_it_equals_the_uninterrupted_run_bit_for_bit(train, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert train(2, *OPTIONS, "--run", str(whole)).status == 0
    process = start(2, "hvd-gossip", "train", *OPTIONS, "--run", broken)
    while process.poll() is None and (not (broken / "metrics.jsonl").exists() or len(records(broken)) < 5):
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert finish(process).status != 0
    interrupted = len(records(broken))
    assert 5 <= interrupted < 60
    job = train(2, *OPTIONS, "--run", str(broken))
    assert job.status == 0
    assert re.search(r"broken: \d+ of 60 epochs are done already", job.out)
    assert records(broken) == records(whole)
    for rank in range(2):
        a, b = (torch.load(newest(run) / f"rank_{rank:05d}.pt", weights_only=True) for run in (whole, broken))
        assert set(a) == set(b)
        for name, value in a["model"].items():
            assert torch.equal(value, b["model"][name]), name
    # A run that is complete says so and does nothing more.
    before = newest(broken).stat().st_mtime_ns
    assert "60 of 60 epochs are done already" in train(2, *OPTIONS, "--run", str(broken)).out
    assert newest(broken).stat().st_mtime_ns == before


def test_damaged_and_foreign_checkpoints_are_refused_and_left_as_they_are(train, tmp_path):
    run = tmp_path / "run"
    options = ["--epochs", "2", "--run", str(run)]
    assert train(2, *options).status == 0
    good = newest(run) / "rank_00001.pt"
    saved = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}

    def refused(message: str, n: int, *more: str) -> None:
        before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
        job = train(n, *options, *more)
        assert job.status == 2
        assert message in job.err
        assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before

    refused("holds another run (seed: 1, now 2)", 2, "--seed", "2")
    refused("holds another run (n: 2, now 1)", 1)
    data = bytearray(good.read_bytes())
    data[len(data) // 2] ^= 1
    good.write_bytes(data)
    refused("rank_00001.pt is damaged", 2)
    good.unlink()
    refused("rank_00001.pt is missing", 2)
    good.write_bytes(saved[good])
    manifest = newest(run) / "manifest.json"
    manifest.write_text("{")
    refused("manifest.json is damaged", 2)
    manifest.write_bytes(saved[manifest].replace(b'"epoch": 2', b'"epoch": 1'))
    refused("is of another run or epoch", 2)
    manifest.write_bytes(saved[manifest])
    (run / "metrics.jsonl").unlink()
    refused("metrics.jsonl holds 0 epochs, the checkpoint is of epoch 2", 2)
    shutil.rmtree(run)
    run.mkdir()
    (run / "thesis.txt").write_text("mine")
    refused("is not empty and holds no run", 2)


def test_ranks_with_different_and_with_no_data_end_every_epoch(train, tmp_path):
    """Dirichlet shards so skewed that some replica has none of the labels."""
    run = tmp_path / "run"
    job = train(4, "--data.dirichlet", "0.001", "--seed", "3", "--epochs", "3", "--graph", "ring", "--run", str(run))
    assert job.status == 0, job.text
    last = records(run)[-1]
    assert last["epoch"] == 3
    assert len(last["train_losses"]) == 4


def test_data_loader_workers_run_under_mpirun(train, tmp_path):
    runs = [tmp_path / name for name in ("alone", "helped")]
    for run, workers in zip(runs, ("0", "2"), strict=True):
        job = train(2, "--epochs", "2", "--data.workers", workers, "--run", str(run))
        assert job.status == 0, job.text
    assert records(runs[0]) == records(runs[1])


def test_without_horovod_gossip_works_and_the_baseline_says_what_to_do(train, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import sys\nsys.modules['horovod'] = None\n")
    without = {"PYTHONPATH": str(tmp_path / "site")}
    centralized = ["--algorithm", "allreduce", "--epochs", "1", "--run", str(tmp_path / "run")]
    job = train(2, *centralized, **without)
    assert job.status == 2
    assert "needs Horovod, which is not installed" in job.err
    assert job.err.count("hvd-gossip: error:") == 1
    assert train(2, "--epochs", "1", "--run", str(tmp_path / "gossip"), **without).status == 0
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    assert train(2, *centralized, "--allreduce", "mpi", **without).status == 0


def test_the_yaml_file_and_the_flags(train, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("graph: ring\nepochs: 5\ndata:\n  batch_size: 16\nrate:\n  scaling: sqrt\n")
    run = tmp_path / "run"
    assert train(1, "--config", str(file), "--epochs", "1", "--run", str(run)).status == 0
    saved = yaml.safe_load((run / "config.yaml").read_text())
    assert (saved["graph"], saved["epochs"], saved["data"]["batch_size"]) == ("ring", 1, 16)
    assert (saved["rate"]["scaling"], saved["rate"]["base"], saved["model"], saved["n"]) == ("sqrt", 0.02, "cnn", 1)
    assert len(records(run)) == 1
    # What a run has saved is what another can be started from.
    again = train(1, "--config", str(run / "config.yaml"), "--run", str(tmp_path / "again"))
    assert again.status == 0, again.text
    assert records(tmp_path / "again") == records(run)
    other = train(2, "--config", str(run / "config.yaml"), "--run", str(tmp_path / "other"))
    assert "got n = 1, but this job has 2 ranks" in other.err
    assert list((run / "tensorboard").iterdir())


def test_output_into_a_file_holds_no_progress_bar(train, tmp_path):
    job = train(2, "--epochs", "2", "--run", str(tmp_path / "run"))
    assert job.status == 0
    assert "\x1b" not in job.out
    assert len(re.findall(r"^epoch ", job.out, re.MULTILINE)) == 2


def test_the_package_runs_as_a_module(run):
    job = run(1, sys.executable, "-m", "hvd_gossip", "--help")
    assert job.status == 0
    assert "train" in job.out


WITH_WORKERS = """
import torch, hvd_gossip.torch as hvd
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    hvd.init()
    data = TensorDataset(torch.arange(40.0))
    loader = DataLoader(data, batch_size=10, num_workers=2, multiprocessing_context="METHOD")
    total = sum(batch[0].sum() for batch in loader)
    assert hvd.allreduce(total).item() == 780
    print("all read", flush=True)
"""


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_workers_of_a_script_do_not_become_ranks(script, method):
    """A spawned worker imports the script again, hvd_gossip.torch included: that starts no MPI."""
    job = script(2, WITH_WORKERS.replace("METHOD", method))
    assert job.status == 0, job.text
    assert job.out.count("all read") == 2


def test_help_and_reports_are_printed_once(run, train, tmp_path):
    job = run(2, "hvd-gossip", "train", "--help")
    assert (job.status, job.out.count("usage:")) == (0, 1)
    assert train(2, "--epochs", "1", "--run", str(tmp_path / "run")).status == 0
    job = run(2, "hvd-gossip", "report", tmp_path / "run")
    assert (job.status, job.out.count("dpsgd, exponential")) == (0, 1)
    assert "\x1b" not in job.out
    job = run(2, "hvd-gossip", "report", tmp_path / "none")
    assert job.status == 2
    assert job.err.count("is no run folder") == 1


@pytest.mark.parametrize(
    "graph",
    ["base_k:k=2", "random_ring", "ada:k0=3,gamma=1", "matcha:base=complete", "alternating", "periodic:every=3"],
)
def test_replicas_train_on_graphs_that_change(train, tmp_path, graph):
    job = train(4, "--graph", graph, "--epochs", "2", "--run", str(tmp_path / "run"))
    assert job.status == 0, job.text
    last = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["accuracy"] > 0.5
    assert last["consensus_distance"] < 1


def test_what_a_graph_does_to_the_mean_is_told_once(train, tmp_path):
    job = train(4, "--graph", "star:weights=uniform", "--epochs", "1", "--run", str(tmp_path / "run"))
    assert job.status == 0, job.text
    assert job.text.count("W is not doubly stochastic") == 1
    assert "replica 0 counts 0.4 and" in job.text


def test_a_run_is_not_resumed_with_other_edges_in_its_file(train, tmp_path):
    edges, run = tmp_path / "own.edges", tmp_path / "run"
    edges.write_text("0 1 0.5")
    options = ["--graph", f"file:{edges}", "--run", str(run)]
    assert train(2, *options, "--epochs", "1").status == 0
    edges.write_text("0 1 0.4")
    job = train(2, *options, "--epochs", "1")
    assert job.status == 2
    assert "is of another run or epoch (edges and weights does not fit)" in job.err
    edges.write_text("0 1 0.5")
    assert train(2, *options, "--epochs", "1").status == 0


@pytest.mark.parametrize("other", ["0 1 0.25\n1 2 0.25", "0 1 0.5\n0 2 0.25"], ids=["weights", "edges"])
def test_ranks_that_read_different_files_are_told_once(run, tmp_path, other):
    """As where each node has a file of its own under one name."""
    for rank in range(3):
        (tmp_path / str(rank)).mkdir()
        (tmp_path / str(rank) / "own.edges").write_text(other if rank == 2 else "0 1 0.5\n1 2 0.25")
    code = (
        "import os, sys; from hvd_gossip.comm import launcher; from hvd_gossip.cli import main; "
        f"os.chdir(os.path.join({str(tmp_path)!r}, str(launcher.told(launcher.RANK)[1]))); "
        f"main(['train', '--graph', 'file:own.edges', '--epochs', '1', '--run', {str(tmp_path / 'run')!r}])"
    )
    job = run(3, sys.executable, "-c", code)
    assert job.status == 2
    assert job.err.count("hvd-gossip: error:") == 1
    assert "what its edges and weights come to differs between ranks: rank 0 has" in job.err
    assert "Traceback" not in job.err
