"""The learning rate over a run: ends of warm-up and decay, monotony, and torch's own cosine as a reference."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR

from hvd_gossip.train.config import RateConfig
from hvd_gossip.train.rates import factor, scale

STEPS_PER_EPOCH, EPOCHS = 20, 10
STEPS = STEPS_PER_EPOCH * EPOCHS


@pytest.mark.parametrize(
    ("scaling", "n", "expected"), [("linear", 8, 8), ("sqrt", 9, 3), ("none", 8, 1), ("linear", 1, 1), ("sqrt", 1, 1)]
)
def test_scale(scaling: str, n: int, expected: float) -> None:
    assert scale(RateConfig(scaling=scaling), n) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("scaling", ["linear", "sqrt"])
@pytest.mark.parametrize("decay", ["cosine", "step", "none"])
@settings(deadline=None, max_examples=40)
@given(n=st.integers(1, 200), warmup=st.integers(1, 4))
def test_warm_up_rises_evenly_from_the_rate_of_one_replica(scaling: str, decay: str, n: int, warmup: int) -> None:
    config = RateConfig(scaling=scaling, decay=decay, warmup_epochs=warmup)  # type: ignore[arg-type]
    at = factor(config, n, STEPS_PER_EPOCH, STEPS)
    steps = warmup * STEPS_PER_EPOCH
    assert at(0) * scale(config, n) == pytest.approx(1)
    assert at(steps) == pytest.approx(1)
    for step in range(steps):
        assert at(step + 1) - at(step) == pytest.approx((1 - 1 / scale(config, n)) / steps, abs=1e-12)


def test_warm_up_of_a_part_of_an_epoch() -> None:
    at = factor(RateConfig(warmup_epochs=0.25, decay="none"), 4, STEPS_PER_EPOCH, STEPS)
    assert [at(step) for step in range(7)] == pytest.approx([0.25, 0.4, 0.55, 0.7, 0.85, 1, 1])


@pytest.mark.parametrize("warmup", [None, 0.0])
@pytest.mark.parametrize("decay", ["cosine", "step", "none"])
def test_without_warm_up_the_scaled_rate_is_there_at_once(warmup: float | None, decay: str) -> None:
    assert factor(RateConfig(warmup_epochs=warmup, decay=decay), 8, STEPS_PER_EPOCH, STEPS)(0) == 1  # type: ignore[arg-type]


def test_without_decay_the_rate_stays() -> None:
    at = factor(RateConfig(warmup_epochs=1, decay="none"), 8, STEPS_PER_EPOCH, STEPS)
    assert {at(step) for step in range(STEPS_PER_EPOCH, STEPS + 1)} == {1.0}


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 64), st.integers(0, 9), st.integers(1, 30))
def test_cosine_ends_at_zero_is_half_in_the_middle_and_falls(n: int, warmup: int, steps_per_epoch: int) -> None:
    steps = EPOCHS * steps_per_epoch
    at = factor(RateConfig(warmup_epochs=warmup), n, steps_per_epoch, steps)
    begin = warmup * steps_per_epoch
    assert at(begin) == 1
    assert at(steps) == pytest.approx(0, abs=1e-15)
    assert at(begin) > at(steps - 1) > 0 or begin == steps - 1
    values = [at(step) for step in range(begin, steps + 1)]
    assert values == sorted(values, reverse=True)
    # cos is odd about the middle: t steps from the begin and t steps from the end sum to one.
    assert [one + other for one, other in zip(values, values[::-1], strict=True)] == pytest.approx([1] * len(values))
    assert at(steps + 5) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("n", [1, 4])
def test_after_the_warm_up_torchs_cosine_agrees(n: int) -> None:
    config = RateConfig(base=0.1, warmup_epochs=2)
    lr = 0.1 * scale(config, n)
    ours, theirs = (torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr) for _ in range(2))
    schedule = LambdaLR(ours, factor(config, n, STEPS_PER_EPOCH, STEPS))
    for _ in range(2 * STEPS_PER_EPOCH):
        ours.step()
        schedule.step()
    reference = CosineAnnealingLR(theirs, T_max=STEPS - 2 * STEPS_PER_EPOCH)
    for _ in range(STEPS - 2 * STEPS_PER_EPOCH + 1):
        assert ours.param_groups[0]["lr"] == pytest.approx(theirs.param_groups[0]["lr"], abs=1e-12)
        for optimizer, scheduler in ((ours, schedule), (theirs, reference)):
            optimizer.step()
            scheduler.step()


@pytest.mark.parametrize("milestones", [[0.5, 0.75], [0.75, 0.5], [0.9], []])
def test_step_decay_multiplies_once_at_each_milestone(milestones: list[float]) -> None:
    config = RateConfig(decay="step", milestones=milestones, factor=0.2, warmup_epochs=1)
    at = factor(config, 4, STEPS_PER_EPOCH, STEPS)
    rate = 1.0
    for step in range(STEPS_PER_EPOCH, STEPS):
        if step in [round(milestone * STEPS) for milestone in milestones]:
            rate *= 0.2
        assert at(step) == pytest.approx(rate)
    assert rate == pytest.approx(0.2 ** len(milestones))


def test_a_warm_up_longer_than_the_run_rises_to_its_end() -> None:
    at = factor(RateConfig(warmup_epochs=100), 4, STEPS_PER_EPOCH, STEPS)
    values = [at(step) for step in range(STEPS + 1)]
    assert values[0] == 0.25
    assert values[-1] == 1
    assert all(math.isclose(b - a, 0.75 / STEPS) for a, b in itertools.pairwise(values))
