"""Simulated disagreement: where it begins and ends, and that its pace is that of the spectra."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hvd_gossip.graphs import (
    MatrixTopology,
    Static,
    Varying,
    alternating,
    base_k,
    complete,
    hyper_hypercube,
    od_equidyn,
    one_peer_exponential,
    random_matching,
    random_ring,
    ring,
    schedule,
    simple_base,
)
from hvd_gossip.graphs.consensus import Rate, consensus_rate, rounds_to_consensus, simulate
from hvd_gossip.graphs.spectral import second_modulus, second_moment


@settings(deadline=None, max_examples=40)
@given(
    name=st.sampled_from(["ring", "star", "torus:dimensions=1", "binary_tree", "symmetric_exponential", "complete"]),
    n=st.integers(2, 30),
    epsilon=st.floats(1e-6, 0.5),
)
def test_a_symmetric_graph_never_takes_longer_than_the_formula(name: str, n: int, epsilon: float) -> None:
    made = schedule(name, n)
    rate, errors = consensus_rate(made), simulate(made, epsilon)
    assert len(errors) - 1 <= rounds_to_consensus(rate, epsilon)
    assert (errors <= rate.factor ** np.arange(len(errors)) + 1e-12).all()
    assert (np.diff(errors) <= 1e-12).all()


@pytest.mark.parametrize("name", ["ring", "ring:directed=true", "star", "torus", "exponential", "hierarchical"])
def test_a_static_graph_ends_at_the_pace_of_its_second_eigenvalue(name: str) -> None:
    made = schedule(name, 12)
    errors = simulate(made, 1e-11)
    late = errors[len(errors) // 2 :]
    pace = (late[-1] / late[0]) ** (1 / (len(late) - 1))
    assert pace == pytest.approx(consensus_rate(made).factor, rel=0.02)
    assert len(errors) - 1 == pytest.approx(rounds_to_consensus(consensus_rate(made), 1e-11), rel=0.15)


@pytest.mark.parametrize(
    "made",
    [
        one_peer_exponential(12),
        one_peer_exponential(23),
        alternating(48, groups=12, outer="ring"),
        schedule("base_k:k=2,weights=lazy", 20),
    ],
    ids=lambda made: made.name,
)
def test_a_period_ends_at_the_pace_of_its_product(made: Any) -> None:
    rate = consensus_rate(made)
    errors = simulate(made, 1e-11)[:: made.period]
    late = errors[len(errors) // 2 :]
    pace = (late[-1] / late[0]) ** (1 / (len(late) - 1) / made.period)
    assert pace == pytest.approx(rate.factor, rel=0.05)


@pytest.mark.parametrize(("text", "n"), [("random_ring", 16), ("ou_equidyn", 9), ("matcha:budget=0.5", 8)])
def test_a_random_schedule_shrinks_the_mean_square_no_slower_than_its_second_moment(text: str, n: int) -> None:
    """E e(t)^2 <= lambda^t, and the typical run is no slower than the mean one."""
    squares = [simulate(schedule(text, n, seed), 1e-300, cap=10, seed=seed) ** 2 for seed in range(20)]
    mean, error = np.mean(squares, axis=0), np.std(squares, axis=0, ddof=1) / math.sqrt(len(squares))
    made = schedule(text, n)
    moment = second_moment(made)
    assert (mean <= (moment.value + 4 * moment.error) ** np.arange(11) + 4 * error).all()
    assert len(simulate(made, 1e-8)) - 1 <= 1.1 * rounds_to_consensus(consensus_rate(made), 1e-8)


@pytest.mark.parametrize("factory", [random_ring, random_matching, od_equidyn])
def test_where_all_directions_shrink_alike_the_second_moment_is_the_pace(factory: Any) -> None:
    """E e(t)^2 = lambda^t, as E[W^T W] is a multiple of the identity beside 11^T."""
    moment = second_moment(factory(12)).value
    squares = np.array([simulate(factory(12, seed=seed), 1e-300, cap=3, seed=seed) ** 2 for seed in range(300)])
    error = squares.std(axis=0, ddof=1) / math.sqrt(len(squares))
    assert (np.abs(squares.mean(axis=0) - moment ** np.arange(4)) <= 4 * error + 1e-12).all()


@settings(deadline=None, max_examples=40)
@given(n=st.integers(2, 64), k=st.integers(1, 4), factory=st.sampled_from([base_k, simple_base, hyper_hypercube]))
def test_exact_schedules_end_with_their_period_and_not_before(n: int, k: int, factory: Any) -> None:
    made = factory(n) if factory is hyper_hypercube else factory(n, k)
    rate = consensus_rate(made)
    assert (rate.factor, rate.gap, len(rate.decay)) == (0, 1, made.period)
    assert rounds_to_consensus(rate, 1e-9) == made.period
    errors = simulate(made, 1e-10)
    assert len(errors) - 1 == made.period
    assert errors[-1] < 1e-13 < 1e-6 < errors[-2]


@pytest.mark.parametrize("n", [2, 8, 32, 64])
def test_one_peer_among_a_power_of_two_ends_with_its_period(n: int) -> None:
    assert len(simulate(one_peer_exponential(n), 1e-12)) - 1 == (n - 1).bit_length()
    assert rounds_to_consensus(consensus_rate(one_peer_exponential(n))) == (n - 1).bit_length()


@settings(deadline=None, max_examples=20)
@given(n=st.integers(2, 15), seed=st.integers(0, 1000))
def test_replicas_agree_also_where_they_drift(n: int, seed: int) -> None:
    """W is not doubly stochastic: the disagreement is that with the mean of the moment."""
    weights = np.random.default_rng(seed).random((n, n)) + np.eye(n)
    made = Static(MatrixTopology("own", weights / weights.sum(axis=1, keepdims=True)))
    errors = simulate(made, 1e-12)
    assert errors[-1] <= 1e-12
    factor = consensus_rate(made).factor
    assert factor == pytest.approx(second_modulus(made.topology))
    assert len(errors) - 1 <= 2 * rounds_to_consensus(Rate(factor, "graph"), 1e-12) + 5


def test_a_simulation_begins_at_one_and_stops_at_epsilon() -> None:
    errors = simulate(Static(ring(12)), 1e-4)
    assert errors.dtype == np.float64
    assert errors[0] == 1
    assert errors[-1] <= 1e-4 < errors[-2]


@pytest.mark.parametrize("cap", [0, 1, 7])
def test_a_cap_ends_a_simulation(cap: int) -> None:
    errors = simulate(Static(ring(50)), 1e-6, cap=cap)
    assert len(errors) == cap + 1
    assert errors[-1] > 1e-6
    np.testing.assert_array_equal(errors, simulate(Static(ring(50)), 1e-6, cap=100)[: cap + 1])


def test_a_simulation_is_a_function_of_its_seed() -> None:
    made = random_ring(10, seed=1)
    np.testing.assert_array_equal(simulate(made, seed=4), simulate(made, seed=4))
    assert (simulate(made, seed=4)[:5] != simulate(made, seed=5)[:5]).any()
    assert (simulate(made, vectors=1)[1:5] != simulate(made, vectors=4)[1:5]).all()


def test_a_simulation_asks_for_each_round_once_with_its_epoch() -> None:
    asked: list[tuple[int, int]] = []

    def function(round: int, epoch: int) -> Any:
        asked.append((round, epoch))
        return ring(6) if round < 3 else complete(6)

    errors = simulate(Varying("own", 6, function), 1e-9, epoch=4)
    assert asked == [(0, 4), (1, 4), (2, 4), (3, 4)]
    expected = simulate(Static(ring(6)), 1e-9)
    np.testing.assert_array_equal(errors[:4], expected[:4])
    assert errors[4] < 1e-14


def test_the_error_is_the_distance_from_the_mean() -> None:
    """With as many vectors as a basis needs, the first error of the ring is near ||W - J||_F / sqrt(n - 1)."""
    W = ring(10).matrix().toarray()
    expected = np.linalg.norm(W - 0.1) / 3
    assert simulate(Static(ring(10)), vectors=20_000, cap=1)[1] == pytest.approx(expected, rel=0.02)
