"""The averaged model, BatchNorm in it, and the consensus distance."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from hvd_gossip import torch as hvd


def model(rank: int) -> nn.Module:
    torch.manual_seed(rank)
    module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2))
    for _ in range(rank + 1):
        module(torch.randn(8, 4) * (rank + 1) + rank)
    module.register_buffer("mask", torch.tensor([rank, 1]))
    return module


def test_parameters_and_statistics_are_means_and_come_back_bit_for_bit(here):
    module = model(here.rank)
    local = {name: value.clone() for name, value in module.state_dict().items()}
    everyone = here.comm.allgather({name: value.numpy() for name, value in local.items()})
    with hvd.averaged(module) as inside:
        assert inside is module
        for name, value in module.state_dict().items():
            if value.is_floating_point():
                expected = sum(torch.from_numpy(one[name]).double() for one in everyone) / here.size
                torch.testing.assert_close(value.double(), expected, atol=1e-6, rtol=1e-6)
            else:
                assert torch.equal(value, local[name]), f"{name} is a counter or a mask: it stays"
        assert module[1].num_batches_tracked.dtype == torch.int64
    for name, value in module.state_dict().items():
        assert torch.equal(value, local[name]), name


def test_local_values_come_back_after_an_error(here):
    module = model(here.rank)
    local = module[0].weight.detach().clone()
    with pytest.raises(KeyError), hvd.averaged(module):
        raise KeyError("in the evaluation")
    assert torch.equal(module[0].weight, local)


def test_parameters_stay_views_of_their_buffer(here):
    module = model(here.rank)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(module.parameters(), lr=0.1), graph="complete")
    with hvd.averaged(module):
        pass
    module(torch.randn(8, 4)).sum().backward()
    optimizer.step()
    assert optimizer.gossip.flat.intact(list(module.parameters()))


def test_consensus_distance_is_its_formula(here):
    module = nn.Linear(3, 1, bias=False)
    nn.init.constant_(module.weight, float(here.rank))
    n = here.size
    expected = (3 * sum((i - (n - 1) / 2) ** 2 for i in range(n)) / n) ** 0.5
    assert hvd.consensus_distance(module) == pytest.approx(expected, abs=1e-12)
    with hvd.averaged(module):
        assert hvd.consensus_distance(module) == pytest.approx(0, abs=1e-12)


def test_consensus_distance_does_not_depend_on_a_common_shift(here):
    module = nn.Linear(3, 3).double()
    torch.manual_seed(here.rank)
    nn.init.normal_(module.weight)
    before = hvd.consensus_distance(module)
    with torch.no_grad():
        module.weight.add_(1e3)
    assert hvd.consensus_distance(module) == pytest.approx(before, rel=1e-9)


def test_sixteen_bit_models_are_averaged_in_float32(here):
    module = nn.Linear(1, 1, bias=False).to(torch.bfloat16)
    nn.init.constant_(module.weight, 256.0 + 2 * here.rank)
    with hvd.averaged(module):
        exact = torch.tensor(256.0 + here.size - 1).to(torch.bfloat16)
        assert module.weight.item() == exact.item()
