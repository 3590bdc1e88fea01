"""Rates of consensus and the rounds that follow from them by formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hvd_gossip.graphs import (
    MatrixTopology,
    Static,
    ada,
    alternating,
    base_k,
    complete,
    exponential,
    one_peer_exponential,
    ou_equidyn,
    random_ring,
    ring,
    ring_lattice,
    star,
)
from hvd_gossip.graphs.consensus import Rate, consensus_rate, rounds_to_consensus, simulate
from hvd_gossip.graphs.spectral import period_factor, second_modulus, second_moment

EPSILONS = st.floats(1e-12, 0.9)


@settings(deadline=None)
@given(factor=st.floats(1e-9, 1 - 1e-9), epsilon=EPSILONS)
def test_the_formula_gives_the_first_round_below_epsilon(factor: float, epsilon: float) -> None:
    rounds = rounds_to_consensus(Rate(factor, "graph"), epsilon)
    assert isinstance(rounds, int)
    slack = 1e-9 * rounds
    assert rounds * math.log(factor) <= math.log(epsilon) + slack
    assert (rounds - 1) * math.log(factor) >= math.log(epsilon) - slack


@pytest.mark.parametrize("factor", [0.5, 0.1, 0.2, 0.05])
@pytest.mark.parametrize("rounds", range(1, 13))
def test_whole_powers_are_not_rounded_up_by_a_last_bit(factor: float, rounds: int) -> None:
    assert rounds_to_consensus(Rate(factor, "graph"), factor**rounds) == rounds


@pytest.mark.parametrize(("epsilon", "rounds"), [(0.6, 1), (0.5, 1), (0.4, 2), (0.01, 3), (1e-9, 4)])
def test_exact_averages_take_the_rounds_that_random_values_took(epsilon: float, rounds: int) -> None:
    assert rounds_to_consensus(Rate(0, "period", decay=(0.5, 0.1, 0.01, 0.0)), epsilon) == rounds
    assert rounds_to_consensus(Rate(0, "graph"), epsilon) == 0


@pytest.mark.parametrize("factor", [1.0, 1.0 + 1e-12])
def test_replicas_that_never_agree_take_for_ever(factor: float) -> None:
    assert rounds_to_consensus(Rate(factor, "graph")) == math.inf


APART = [np.eye(6), np.kron(np.eye(2), np.full((3, 3), 1 / 3)), np.roll(np.eye(6), 1, axis=1)]


@pytest.mark.parametrize("matrix", APART, ids=["alone", "two groups", "cycle"])
def test_groups_that_never_meet_take_for_ever(matrix: np.ndarray) -> None:
    made = Static(MatrixTopology("own", matrix))
    assert rounds_to_consensus(consensus_rate(made)) == math.inf
    errors = simulate(made, cap=40)
    assert len(errors) == 41
    assert errors[-1] > 0.1


@pytest.mark.parametrize("epsilon", [0, 1, -0.1, 2, float("nan"), True, float("inf")])
def test_an_epsilon_that_is_no_fraction_is_refused(epsilon: Any) -> None:
    text = f"got epsilon = {epsilon!r}, expected a fraction between 0 and 1"
    with pytest.raises(ValueError, match=text):
        rounds_to_consensus(Rate(0.5, "graph"), epsilon)
    with pytest.raises(ValueError, match=text):
        simulate(Static(ring(4)), epsilon)


@pytest.mark.parametrize("made", [Static(ring(1)), random_ring(1), base_k(1), ada(1)], ids=lambda made: made.name)
def test_one_replica_agrees_with_itself(made: Any) -> None:
    assert simulate(made).tolist() == [0]
    assert consensus_rate(made).factor == 0
    assert rounds_to_consensus(consensus_rate(made)) <= 1


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (Static(star(9)), "graph"),
        (alternating(12), "period"),
        (random_ring(9), "second moment"),
        (ou_equidyn(9), "second moment"),
        (ada(20, k0=6, gamma=1), "graph of this epoch"),
        (ada(20, k0=6, gamma=1, by="round"), "first 32 rounds"),
    ],
    ids=["static", "period", "random", "estimated", "ada", "ada by rounds"],
)
def test_a_rate_says_how_it_was_found(made: Any, kind: str) -> None:
    rate = consensus_rate(made)
    assert rate.kind == kind
    assert rate.gap == 1 - rate.factor
    assert (rate.second_moment is None) == (kind != "second moment")


def test_rates_are_those_of_their_spectra() -> None:
    made = alternating(48, groups=12, outer="ring")
    assert consensus_rate(made).factor ** 2 == pytest.approx(period_factor(made))
    assert consensus_rate(random_ring(16)).factor ** 2 == pytest.approx(13 / 45)
    assert consensus_rate(ou_equidyn(9)).second_moment == second_moment(ou_equidyn(9))
    assert consensus_rate(Static(exponential(12))).factor == second_modulus(exponential(12))


def test_the_rate_of_one_round_alone_or_of_one_epoch() -> None:
    made = ada(20, k0=6, gamma=1)
    for epoch, k in ((0, 6), (2, 4), (9, 2)):
        assert consensus_rate(made, epoch=epoch).factor == second_modulus(ring_lattice(20, k))
    one = consensus_rate(one_peer_exponential(12), round=1)
    assert one.kind == "graph of one round"
    assert one.factor == second_modulus(one_peer_exponential(12)(1))
    assert consensus_rate(random_ring(12), round=5).factor == pytest.approx(second_modulus(ring(12)))
    assert consensus_rate(made, round=3, epoch=2).factor == second_modulus(ring_lattice(20, 4))


def test_a_users_schedule_without_marks_is_taken_as_it_stands() -> None:
    class Own:
        name, n, period = "own", 8, None

        def __call__(self, round: int, epoch: int = 0) -> Any:
            return ring(8) if epoch == 0 else complete(8)

    assert consensus_rate(Own()).kind == "first 32 rounds"
    assert consensus_rate(Own()).factor == pytest.approx(second_modulus(ring(8)))
    assert consensus_rate(Own(), epoch=1).factor == 0
    assert rounds_to_consensus(consensus_rate(Own(), epoch=1)) == 1
