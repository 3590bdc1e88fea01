"""Compressors that keep some entries: which ones, and how many."""

from __future__ import annotations

import hashlib
import math

import pytest
import torch
from hypothesis import given, settings, strategies as st

from hvd_gossip.comm.compress import Compressor, RandomK, TopK
from hvd_gossip.comm.compress.sparse import drawn, largest

REAL = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def vector(length: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    drawn_in = torch.complex128 if dtype.is_complex else torch.float64
    return torch.randn(length, generator=torch.Generator().manual_seed(seed), dtype=drawn_in).to(dtype)


def compressed(c: Compressor, x: torch.Tensor, seed: int = 3) -> torch.Tensor:
    return c.decode(c.encode(x, seed), torch.full_like(x, 7.0), seed)


def square(x: torch.Tensor) -> float:
    return float(x.to(torch.complex128 if x.is_complex() else torch.float64).abs().square().sum())


def test_top_k_keeps_the_largest() -> None:
    x = torch.tensor([0.1, -5.0, 3.0, 0.0, -0.2])
    assert compressed(TopK(0.4), x).tolist() == [0.0, -5.0, 3.0, 0.0, 0.0]


def test_top_k_keeps_the_first_of_equal_entries() -> None:
    x = torch.tensor([1.0, -2.0, 2.0, 1.0, -1.0, 3.0])
    assert largest(x, 2).tolist() == [1, 5]
    assert largest(x, 4).tolist() == [0, 1, 2, 5]
    assert largest(torch.zeros(200_000), 3).tolist() == [0, 1, 2]


@settings(deadline=None, max_examples=30)
@given(
    length=st.sampled_from([1, 1000, 65_536, 200_003]),
    fraction=st.sampled_from([1e-6, 0.01, 0.5, 0.99, 1.0]),
    seed=st.integers(0, 100),
    dtype=st.sampled_from(REAL),
    levels=st.sampled_from([1, 5, 10**6]),
)
def test_the_largest_are_those_of_a_stable_sort(
    length: int, fraction: float, seed: int, dtype: torch.dtype, levels: int
) -> None:
    x, k = (vector(length, seed, torch.float64) * levels).round().to(dtype), TopK(fraction).count(length)
    expected = torch.sort(x.abs().double(), descending=True, stable=True).indices[:k].sort().values
    assert torch.equal(largest(x, k), expected)


def test_the_largest_are_found_where_a_sample_misleads() -> None:
    """Every third entry is large: those that the sample sees, and no others."""
    x = torch.ones(200_000)
    x[::3] = 9
    x[3] = 10
    assert largest(x, 2).tolist() == [0, 3]
    assert largest(x, 80_000).tolist() == sorted([*range(0, 200_000, 3), *(i for i in range(20_000) if i % 3)][:80_000])


@pytest.mark.parametrize(("fraction", "length", "k"), [(0.07, 100, 7), (0.01, 1, 1), (0.01, 101, 2), (1.0, 9, 9)])
def test_k_is_the_fraction_as_written_rounded_up(fraction: float, length: int, k: int) -> None:
    assert TopK(fraction).count(length) == k


def test_random_k_without_bias_is_right_on_average() -> None:
    """Each entry is kept with probability k/d and multiplied by d/k: variance (d/k - 1) x^2 for each seed."""
    c, x, seeds = RandomK(0.14, unbiased=True), vector(50, 1, torch.float64), 4000
    mean = sum(compressed(c, x, seed) for seed in range(seeds)) / seeds
    assert ((mean - x).abs() <= 5 * x.abs() * math.sqrt((50 / 7 - 1) / seeds)).all()


def test_random_k_without_bias_is_the_biased_one_times_its_share() -> None:
    x = vector(50, 1, torch.float64)
    assert torch.equal(compressed(RandomK(0.14, unbiased=True), x), compressed(RandomK(0.14), x) * (50 / 7))


@pytest.mark.parametrize("fraction", [0.3, 0.7])
def test_random_k_keeps_its_share_on_average(fraction: float) -> None:
    """What is kept is a sum over k places drawn without replacement, of known variance."""
    x, seeds = vector(10, 1, torch.float64), 4000
    kept = sum(square(compressed(RandomK(fraction), x, seed)) for seed in range(seeds)) / seeds
    spread = float((x.square() - x.square().mean()).square().sum())
    deviation = math.sqrt(fraction * (1 - fraction) * 10 / 9 * spread / seeds)
    assert abs(kept - fraction * square(x)) <= 5 * deviation


@pytest.mark.parametrize("k", [2, 4])
def test_all_choices_are_equally_likely(k: int) -> None:
    """The 15 choices of 2 or of 4 out of 6, by a chi-squared test of 14 degrees of freedom, for seeds 0 to 5999."""
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(6000):
        choice = tuple(drawn(6, k, seed).tolist())
        counts[choice] = counts.get(choice, 0) + 1
    assert len(counts) == 15
    assert sum((count - 400) ** 2 / 400 for count in counts.values()) < 42.6  # exceeded with probability 1e-4


def test_random_k_draws_the_same_everywhere_and_others_in_other_rounds() -> None:
    one, other = (compressed(RandomK(0.1), torch.ones(1000), seed) for seed in (1, 2))
    assert torch.equal(one, compressed(RandomK(0.1), torch.ones(1000), 1))
    assert int(one.sum()) == 100
    assert not torch.equal(one, other)
    assert drawn(100, 5, 7).tolist() == [6, 8, 17, 28, 89]
    assert (
        hashlib.sha256(drawn(100_000, 60_000, 7).numpy().astype("<i8").tobytes()).hexdigest()[:16] == "7615ed6993cfa297"
    )


def test_the_largest_number_does_not_hide_infinity() -> None:
    x = torch.tensor([torch.finfo(torch.float32).max, math.inf, math.nan])
    assert largest(x, 1).tolist() == [2]
    assert largest(x, 2).tolist() == [1, 2]
