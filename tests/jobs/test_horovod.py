"""Beside and in place of Horovod: orders of initialization, horovodrun, and a script changed in its import line."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import subprocess
import sys

import pytest
from conftest import ROOT

pytestmark = pytest.mark.skipif(importlib.util.find_spec("horovod") is None, reason="Horovod is not installed")

ORDERS = """
import sys, warnings
imports, inits, ends = sys.argv[1:4]
import torch
for name in imports.split(","):
    exec({"mpi": "from mpi4py import MPI", "horovod": "import horovod.torch as horovod",
          "ours": "import hvd_gossip.torch as ours"}[name])
for name in inits.split(","):
    globals()[name].init()
model = torch.nn.Linear(50, 50)
optimizer = ours.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), graph="ring")
for step in range(20):
    total = horovod.allreduce(torch.ones(3), op=horovod.Sum)
    model(torch.ones(2, 50)).sum().backward(); optimizer.step()
    assert total.tolist() == [float(ours.size())] * 3
assert (ours.rank(), ours.size()) == (horovod.rank(), horovod.size())
for name in filter(None, ends.split(",")):
    globals()[name].shutdown()
print("ranks agree", flush=True)
"""
CASES = [
    ("mpi,horovod,ours", "horovod,ours", "horovod,ours"),
    ("mpi,horovod,ours", "ours,horovod", ""),
    ("horovod,ours", "ours,horovod", "ours,horovod"),
    ("horovod,ours", "horovod,ours", "horovod,ours"),
    ("horovod,ours", "horovod,ours", "ours,horovod"),
    ("ours,horovod", "horovod,ours", ""),
]


@pytest.mark.parametrize("case", CASES, ids="; ".join)
def test_any_order_of_starting_and_ending_works(script, case):
    job = script(2, ORDERS, *case)
    assert job.status == 0, job.text
    assert job.out.count("ranks agree") == 2


# What a user of Horovod has: the pattern of its PyTorch example, on data that needs no download.
SCRIPT = """
import sys
import torch
import IMPORT as hvd
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

hvd.init()
torch.manual_seed(42)
torch.set_num_threads(1)
pixels, labels = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(labels))
sampler = DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())
loader = DataLoader(data, batch_size=64, sampler=sampler)
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02 * hvd.size(), momentum=0.5)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
compression = hvd.Compression.none
optimizer = hvd.DistributedOptimizer(
    optimizer, named_parameters=model.named_parameters(), compression=compression, op=hvd.Average,
    gradient_predivide_factor=1.0 OPTIONS)
for epoch in range(1, 9):
    model.train()
    sampler.set_epoch(epoch)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
right = (model(data.tensors[0]).argmax(1) == data.tensors[1]).float().mean()
accuracy = hvd.allreduce(right, name="accuracy").item()
if hvd.rank() == 0:
    checksum = sum(p.detach().double().abs().sum().item() for p in model.parameters())
    print(f"accuracy {accuracy:.4f} checksum {checksum:.9f}", flush=True)
"""


def result(job) -> tuple[float, float]:
    found = re.search(r"accuracy ([\d.]+) checksum ([\d.]+)", job.out)
    assert job.status == 0, job.text
    assert found, job.text
    return float(found[1]), float(found[2])


def test_a_horovod_script_turns_decentralized_by_its_import_line(script):
    def run(module: str, options: str = "") -> tuple[float, float]:
        return result(script(2, SCRIPT.replace("IMPORT", module).replace("OPTIONS", options)))

    theirs = run("horovod.torch")
    centralized = run("hvd_gossip.torch", ', algorithm="allreduce"')
    gossip = run("hvd_gossip.torch")
    # The same baseline: sums of two numbers have one order, so not even rounding differs.
    assert centralized == theirs
    assert gossip[0] > theirs[0] - 0.015
    assert gossip[1] != theirs[1]


def test_horovodrun(tmp_path):
    path = tmp_path / "ranks.py"
    path.write_text(
        "import hvd_gossip.torch as hvd, horovod.torch as horovod, torch\n"
        "hvd.init(); horovod.init()\n"
        "assert (hvd.rank(), hvd.size(), hvd.local_rank()) == (horovod.rank(), horovod.size(), horovod.local_rank())\n"
        "print('sum', int(hvd.allreduce(torch.tensor(hvd.rank() + 1), op=hvd.Sum)))\n"
    )
    done = subprocess.run(
        ["bash", ROOT / "mpi_scripts" / "horovodrun.sh", "-np", "2", sys.executable, path],
        capture_output=True, text=True, timeout=90, check=False, env=os.environ,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("sum 3") == 2


def test_orders_are_complete():
    """Both orders of initialization, with and without mpi4py imported first."""
    assert {(imports.startswith("mpi"), inits) for imports, inits, _ in CASES} == set(
        itertools.product((True, False), ("horovod,ours", "ours,horovod"))
    )
