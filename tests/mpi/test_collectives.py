"""Horovod's names with Horovod's meanings."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn

from hvd_gossip import torch as hvd


def test_allreduce_averages_and_sums_without_touching_its_argument(here):
    tensor = torch.tensor([1.0, float(here.rank)])
    torch.testing.assert_close(hvd.allreduce(tensor, name="x"), torch.tensor([1.0, (here.size - 1) / 2]))
    total = hvd.allreduce(tensor, op=hvd.Sum)
    torch.testing.assert_close(total, torch.tensor([float(here.size), here.size * (here.size - 1) / 2]))
    assert tensor.tolist() == [1.0, float(here.rank)]
    assert torch.equal(hvd.allreduce(tensor, average=False), total)


def test_scaling_before_and_after(here):
    result = hvd.allreduce(torch.tensor(3.0), op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5)
    assert result.item() == 3.0 * here.size


def test_compression_gives_the_dtype_back(here):
    result = hvd.allreduce(torch.tensor([0.1], dtype=torch.float64), compression=hvd.Compression.fp16)
    assert result.dtype == torch.float64
    assert result.item() == pytest.approx(0.1, abs=1e-4)


def test_gradients_flow_through_allreduce(here):
    x = torch.tensor(2.0, requires_grad=True)
    hvd.allreduce(x * (here.rank + 1), op=hvd.Sum).backward()
    assert x.grad.item() == here.size * (here.rank + 1)


@pytest.mark.parametrize("wrong", [{"op": hvd.Adasum}, {"op": hvd.Sum, "average": True}])
def test_impossible_reductions_are_refused(here, wrong):
    with pytest.raises(ValueError, match="expected Average or Sum|give op alone"):
        hvd.allreduce(torch.zeros(1), **wrong)


@pytest.mark.parametrize("form", ["state_dict", "named", "plain", "iterator"])
def test_parameters_are_those_of_the_root(here, form):
    root = here.size - 1
    torch.manual_seed(here.rank)
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    module(torch.randn(5, 3))
    forms = {
        "state_dict": module.state_dict(),
        "named": list(module.named_parameters()),
        "plain": list(module.parameters()),
        "iterator": module.named_parameters(),
    }
    expected = here.comm.bcast([p.detach().clone() for p in module.parameters()], root=root)
    hvd.broadcast_parameters(forms[form], root_rank=root)
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), expected, strict=True))


def test_parameters_that_do_not_match_are_refused_on_every_rank(here):
    module = nn.Linear(2 + (here.rank == 0 and here.size > 1), 2)
    if here.size == 1:
        hvd.broadcast_parameters(module.state_dict())
        return
    with pytest.raises(ValueError, match="list of parameters differs between ranks"):
        hvd.broadcast_parameters(module.state_dict(), root_rank=0)


@pytest.mark.parametrize("distributed", [False, True])
def test_optimizer_state_is_that_of_the_root(here, distributed):
    torch.manual_seed(here.rank)
    module = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1 * (here.rank + 1))
    if distributed:
        optimizer = hvd.DistributedOptimizer(optimizer, graph="ring")
    if here.rank == 0 or distributed:
        module(torch.randn(4, 3)).sum().backward()
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert optimizer.param_groups[0]["lr"] == 0.1
    states = here.comm.allgather([v["exp_avg"].numpy() for v in optimizer.state_dict()["state"].values()])
    assert all((a == b).all() for other in states for a, b in zip(states[0], other, strict=True))
    assert len(states[0]) == 2


def test_objects_are_those_of_the_root(here):
    root = here.size - 1
    assert hvd.broadcast_object({"epoch": here.rank}, root_rank=root) == {"epoch": root}


@pytest.mark.parametrize("root", [-1, 99])
def test_a_root_that_does_not_exist_is_refused(here, root):
    for call in (lambda: hvd.broadcast_object(1, root), lambda: hvd.broadcast_parameters({}, root)):
        with pytest.raises(ValueError, match=f"got root_rank = {root}"):
            call()


HOROVOD_NAMES = [
    "init", "shutdown", "is_initialized", "rank", "size", "local_rank", "local_size", "broadcast_parameters",
    "broadcast_optimizer_state", "broadcast_object", "allreduce", "Average", "Sum", "Adasum", "Compression",
    "DistributedOptimizer", "nccl_built", "mpi_built",
]  # fmt: skip


def test_the_names_and_arguments_are_horovods():
    horovod = pytest.importorskip("horovod.torch", reason="Horovod is not installed")
    assert [name for name in HOROVOD_NAMES if not (hasattr(hvd, name) and hasattr(horovod, name))] == []
    for name in ("DistributedOptimizer", "broadcast_parameters", "broadcast_optimizer_state", "broadcast_object"):
        theirs, ours = (list(inspect.signature(getattr(module, name)).parameters) for module in (horovod, hvd))
        # One communicator takes the place of Horovod's process sets.
        assert [name for name in ours if name in theirs] == [name for name in theirs if name in ours]
        assert set(theirs) - set(ours) <= {"process_set"}
