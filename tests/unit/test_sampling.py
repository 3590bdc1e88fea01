"""Which samples each replica sees: every sample, in an order of seed, epoch and rank, however many workers load."""

from __future__ import annotations

import math
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings, strategies as st
from torch.utils.data import DistributedSampler

from hvd_gossip.tasks import Images
from hvd_gossip.train.config import DataConfig
from hvd_gossip.train.sampling import Batches, DirichletSampler


def numbered(count: int, classes: int = 3) -> Images:
    """Images that hold their own number."""
    return Images(torch.arange(float(count)).view(count, 1, 1, 1), torch.arange(count) % classes)


def batches(
    count: int,
    size: int,
    rank: int,
    seed: int = 1,
    batch_size: int = 4,
    dirichlet: float | None = None,
    workers: int = 0,
) -> Batches:
    config = DataConfig(batch_size=batch_size, dirichlet=dirichlet, workers=workers)
    return Batches(numbered(count), config, size, rank, seed)


def seen(made: Batches, epoch: int) -> list[list[int]]:
    """The numbers of the samples, batch by batch; labels are checked to belong to them."""
    found = []
    for inputs, labels in made.epoch(epoch):
        assert inputs.shape[1:] == (1, 1, 1)
        numbers = inputs.flatten().long()
        assert torch.equal(labels, numbers % 3)
        found.append(numbers.tolist())
    return found


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 9), st.integers(0, 99), st.integers(0, 5))
def test_ranks_together_see_every_sample(count: int, size: int, batch_size: int, seed: int, epoch: int) -> None:
    everything: list[int] = []
    for rank in range(size):
        made = batches(count, size, rank, seed, batch_size)
        found = seen(made, epoch)
        assert len(found) == len(made) == math.ceil(math.ceil(count / size) / batch_size)
        assert all(len(batch) == batch_size for batch in found[:-1])
        reference: DistributedSampler = DistributedSampler(numbered(count), size, rank, seed=seed)  # type: ignore[arg-type]
        reference.set_epoch(epoch)
        assert list(chain(*found)) == list(reference)
        everything += chain(*found)
    assert set(everything) == set(range(count))
    # A few samples come twice, so that all ranks take the same number of steps.
    assert len(everything) == math.ceil(count / size) * size


@pytest.mark.parametrize("dirichlet", [None, 1.0])
def test_order_follows_from_seed_and_epoch_alone(dirichlet: float | None) -> None:
    one, same = batches(60, 2, 1, dirichlet=dirichlet), batches(60, 2, 1, dirichlet=dirichlet)
    orders = [seen(one, epoch) for epoch in (0, 1, 2)]
    # Resuming at epoch 2 goes on as if 0 and 1 had been run through; going back gives the first order again.
    assert seen(same, 2) == orders[2]
    assert seen(same, 0) == orders[0]
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert seen(batches(60, 2, 1, seed=2, dirichlet=dirichlet), 0) != orders[0]


def shards(labels: torch.Tensor, concentration: float, size: int, seed: int, epoch: int = 0) -> list[list[int]]:
    samplers = [DirichletSampler(labels, concentration, size, rank, seed) for rank in range(size)]
    for sampler in samplers:
        sampler.set_epoch(epoch)
    found = [list(sampler) for sampler in samplers]
    assert [len(sampler) for sampler in samplers] == [len(shard) for shard in found]
    return found


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=60),
    st.floats(-8, 6).map(lambda power: 10.0**power),
    st.integers(1, 9),
    st.integers(0, 10**6),
    st.integers(0, 9),
)
@example([0, 1, 0, 1], 1e-300, 3, 0, 0)
@example([0, 1, 0, 1], 5e-324, 3, 0, 0)
@example([0, 1, 0, 1], 1e300, 3, 0, 0)
def test_dirichlet_shards_partition_the_data(
    labels: list[int], concentration: float, size: int, seed: int, epoch: int
) -> None:
    found = shards(torch.tensor(labels), concentration, size, seed, epoch)
    assert sorted(chain(*found)) == list(range(len(labels)))


def test_a_tiny_concentration_leaves_shards_empty_and_they_can_be_trained_on() -> None:
    labels = numbered(30).labels
    found = shards(labels, 1e-4, 8, seed=3)
    # Each of the three labels goes to one replica as a whole.
    assert sum(bool(shard) for shard in found) <= 3
    empty = found.index([])
    made = batches(30, 8, empty, seed=3, dirichlet=1e-4)
    assert len(made) == 0
    assert seen(made, 0) == []


def test_a_large_concentration_gives_even_shards() -> None:
    labels = torch.arange(1200) % 3
    for shard in shards(labels, 1e8, 4, seed=5):
        counts = np.bincount(labels[shard], minlength=3)
        assert np.abs(counts - 100).max() <= 2


def test_concentration_decides_how_unlike_the_shards_are() -> None:
    """The variance of a Dirichlet part is (n - 1)/(n^2 (n a + 1)): measured over many seeds."""
    labels, size = torch.zeros(1000, dtype=torch.int64), 4
    for concentration in (0.1, 1.0, 10.0):
        parts = np.array([[len(s) / 1000 for s in shards(labels, concentration, size, seed)] for seed in range(300)])
        expected = (size - 1) / (size**2 * (size * concentration + 1))
        assert parts.var() == pytest.approx(expected, rel=0.25)
        assert parts.mean(axis=0) == pytest.approx(np.full(size, 1 / size), abs=0.1)


def test_shards_are_kept_over_epochs_and_change_with_the_seed() -> None:
    labels = numbered(90).labels
    first, second, other = shards(labels, 1.0, 3, 1, 0), shards(labels, 1.0, 3, 1, 1), shards(labels, 1.0, 3, 2, 0)
    assert [sorted(shard) for shard in first] == [sorted(shard) for shard in second]
    assert all(one != two for one, two in zip(first, second, strict=True) if len(one) > 5)
    assert [sorted(shard) for shard in first] != [sorted(shard) for shard in other]


@pytest.mark.parametrize("dirichlet", [None, 0.5])
def test_worker_processes_change_nothing(dirichlet: float | None) -> None:
    plain, parallel = (batches(50, 2, 1, dirichlet=dirichlet, workers=workers) for workers in (0, 2))
    for epoch in (0, 1, 0):
        assert seen(parallel, epoch) == seen(plain, epoch)
