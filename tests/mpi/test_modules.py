"""Everything a torch module can hold survives distribution, and trains as it would alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from hvd_gossip import torch as hvd

ALGORITHMS = ["dpsgd", "dpsgd:order=awc", "allreduce"]


class Zoo(nn.Module):
    """Frozen, tied, empty, scalar, non-contiguous, channels-last and unused parameters of several dtypes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(7, 6)
        self.readout = nn.Linear(6, 7, bias=False)
        self.readout.weight = self.embedding.weight
        self.frozen = nn.Parameter(torch.randn(6, 6), requires_grad=False)
        self.empty = nn.Parameter(torch.zeros(0, 3))
        self.scalar = nn.Parameter(torch.tensor(1.5))
        self.transposed = nn.Parameter(torch.randn(4, 6).t())
        self.conv = nn.Conv2d(4, 4, 3, padding=1).to(memory_format=torch.channels_last)
        self.wide = nn.Linear(4, 6).double()
        self.float16 = nn.Parameter(torch.randn(6).to(torch.float16))
        self.bfloat16_ = nn.Parameter(torch.randn(6).to(torch.bfloat16))
        self.unused = nn.Parameter(torch.ones(5))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = (self.embedding(tokens) @ self.frozen) * self.scalar + self.empty.sum()
        x = self.conv((x @ self.transposed).view(-1, 4, 1, 1)).flatten(1)
        x = self.wide(x.double()).float()
        return self.readout(x + self.float16.float() + self.bfloat16_.float())


def tokens(seed: int) -> torch.Tensor:
    return torch.randint(0, 7, (16,), generator=torch.Generator().manual_seed(seed))


def train(module: nn.Module, optimizer: torch.optim.Optimizer, seeds) -> None:
    for seed in seeds:
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(tokens(seed)), tokens(seed + 1)).backward()
        optimizer.step()


def sgd(module: nn.Module) -> torch.optim.Optimizer:
    biases = [p for name, p in module.named_parameters() if name.endswith("bias")]
    others = [p for name, p in module.named_parameters() if not name.endswith("bias")]
    groups = [{"params": others, "lr": 0.05}, {"params": biases, "lr": 0.01, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=1e-3)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_zoo_survives_and_trains_as_it_would_alone(here, algorithm):
    """Weights 1/n with n a power of two: on equal data bit for bit the plain module, for every n here."""
    plain, ours = Zoo(), Zoo()
    looks = [(p.shape, p.stride(), p.dtype, p.requires_grad) for p in ours.parameters()]
    reference, wrapped = sgd(plain), sgd(ours)
    hvd.DistributedOptimizer(wrapped, ours.named_parameters(), graph="complete", algorithm=algorithm, allreduce="mpi")
    assert [(p.shape, p.stride(), p.dtype, p.requires_grad) for p in ours.parameters()] == looks
    train(plain, reference, range(8))
    train(ours, wrapped, range(8))
    for (name, a), b in zip(plain.named_parameters(), ours.parameters(), strict=True):
        assert torch.equal(a, b), name
    assert ours.readout.weight is ours.embedding.weight
    assert ours.unused.grad is None


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_replicas_on_different_data_agree_on_the_complete_graph(here, algorithm):
    module = Zoo()
    optimizer = hvd.DistributedOptimizer(sgd(module), graph="complete", algorithm=algorithm, allreduce="mpi")
    train(module, optimizer, range(100 * here.rank, 100 * here.rank + 5))
    if algorithm != "dpsgd:order=awc":
        values = here.comm.allgather([p.detach().double().numpy() for p in module.parameters()])
        for other in values[1:]:
            for a, b in zip(values[0], other, strict=True):
                assert abs(a - b).max(initial=0) <= (1e-6 if algorithm == "dpsgd" else 0)


def test_parameters_are_views_of_one_buffer_for_each_dtype(here):
    module = Zoo()
    optimizer = hvd.DistributedOptimizer(sgd(module), graph="ring")
    buffers = optimizer.gossip.flat.buffers
    assert sorted(str(b.dtype) for b in buffers) == [
        "torch.bfloat16",
        "torch.float16",
        "torch.float32",
        "torch.float64",
    ]
    storages = {b.untyped_storage().data_ptr() for b in buffers}
    for name, p in module.named_parameters():
        if p.requires_grad and p.numel():
            assert p.untyped_storage().data_ptr() in storages, name
    assert module.frozen.untyped_storage().data_ptr() not in storages


def test_what_changes_between_steps_is_noticed(here):
    """Unfreezing, adding a group and moving the module to another dtype: the next step fuses anew."""
    module = Zoo()
    extra = nn.Parameter(torch.full((3,), float(here.rank)))
    optimizer = hvd.DistributedOptimizer(sgd(module), graph="complete")
    train(module, optimizer, [here.rank])
    module.frozen.requires_grad_(True)
    optimizer.add_param_group({"params": [extra], "lr": 0.1})
    train(module, optimizer, [here.rank])
    torch.testing.assert_close(extra.detach(), torch.full((3,), (here.size - 1) / 2))
    module.wide.float()
    assert not optimizer.gossip.flat.intact(optimizer.gossip.flat.parameters)
    module.wide.double()
    train(module, optimizer, [here.rank])
    assert hvd.consensus_distance(module) < 1e-5


@pytest.mark.parametrize(
    "make", [torch.optim.SparseAdam, lambda p: torch.optim.SGD(p, lr=0.1)], ids=["sparse_adam", "sgd"]
)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sparse_gradients(here, algorithm, make):
    """On different rows of an embedding: allreduce keeps replicas equal, and equal to the mean gradient's step."""
    torch.manual_seed(1)
    table = nn.Embedding(20, 3, sparse=True)
    dense = nn.Parameter(table.weight.detach().clone())
    start = dense.detach().clone()
    optimizer = hvd.DistributedOptimizer(
        make(table.parameters()), graph="complete", algorithm=algorithm, allreduce="mpi"
    )
    table(torch.tensor([here.rank, 10])).sum().backward()
    optimizer.step()
    if algorithm == "allreduce":
        assert table.weight.grad.is_sparse
        expected = torch.zeros(20, 3)
        expected[: here.size] = 1 / here.size
        expected[10] = 1
        torch.testing.assert_close(table.weight.grad.to_dense(), expected)
    touched = sorted({*range(here.size), 10})
    if algorithm != "dpsgd:order=awc":
        changed = (table.weight.detach() - start).abs().sum(1).gt(1e-4).nonzero().flatten().tolist()
        assert changed == touched
        assert hvd.consensus_distance(table) < 1e-6


def test_lazy_and_overlapping_parameters_are_refused_on_every_rank(here):
    lazy = nn.LazyLinear(3)
    with pytest.raises(ValueError, match="lazy parameter"):
        hvd.DistributedOptimizer(torch.optim.SGD(lazy.parameters(), lr=0.1))
    memory = torch.zeros(10)
    pair = [nn.Parameter(memory[:6]), nn.Parameter(memory[4:])]
    with pytest.raises(ValueError, match="share a part of their memory"):
        hvd.DistributedOptimizer(torch.optim.SGD(pair, lr=0.1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sixteen_bit_models_train(here, algorithm, dtype):
    torch.manual_seed(0)
    module = nn.Linear(8, 2).to(dtype)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(module.parameters(), lr=0.25), graph="ring", algorithm=algorithm, allreduce="mpi"
    )
    generator = torch.Generator().manual_seed(here.rank)
    losses = []
    for _ in range(30):
        inputs = torch.randn(32, 8, generator=generator)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(inputs.to(dtype)).float(), inputs.sum(1).gt(0).long())
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])
    assert module.weight.dtype == dtype
