"""What is looked at of schedules: whole periods, counted by graph, and what tells one schedule from another."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hvd_gossip.graphs import (
    MatrixTopology,
    Static,
    Topology,
    Varying,
    alternating,
    complete,
    exponential,
    ring,
    schedule,
)
from hvd_gossip.graphs.consensus import consensus_rate, rounds_to_consensus, simulate
from hvd_gossip.graphs.cost import Machine, gossip_cost, schedule_cost
from hvd_gossip.graphs.description import describe
from hvd_gossip.graphs.schedules import as_schedule, fingerprint, looked_at
from hvd_gossip.graphs.spectral import contraction, period_factor, spectral_gap

SWAP = [[0.0, 1.0], [1.0, 0.0]]


@given(every=st.integers(1, 300))
def test_of_a_long_period_every_round_counts(every: int) -> None:
    made = schedule(f"periodic:every={every}", 12)
    found = looked_at(made)
    assert sum(times for _, times in found) == every
    expected = ((every - 1) * exponential(12).degree + complete(12).degree) / every
    assert describe(made).messages_per_step == pytest.approx(expected)
    assert schedule_cost(made, 1e6, Machine()).messages == pytest.approx(expected)


def test_the_seconds_of_a_period_are_the_mean_of_its_rounds() -> None:
    made = schedule("periodic:every=100", 12)
    each = [gossip_cost(made(t), 1e6, Machine()).seconds for t in range(100)]
    assert schedule_cost(made, 1e6, Machine()).seconds == pytest.approx(np.mean(each))


@pytest.mark.parametrize("text", ["periodic:every=1000", "periodic:every=20", "base_k:k=2", "one_peer_exponential"])
@pytest.mark.parametrize("epsilon", [0.3, 1e-3, 1e-9])
def test_rounds_of_an_exact_period_are_those_that_it_takes(text: str, epsilon: float) -> None:
    """Early rounds can be enough where the exact average comes late."""
    made = schedule(text, 16)
    assert rounds_to_consensus(consensus_rate(made), epsilon) == len(simulate(made, epsilon)) - 1


def test_a_schedule_without_period_is_looked_at_over_32_rounds() -> None:
    made = schedule("ada:k0=10,gamma=1,by=round", 32)
    degrees = [made(t).degree for t in range(32)]
    found = describe(made)
    assert (found.degree_in, found.messages_per_step) == (max(degrees), pytest.approx(np.mean(degrees)))
    dense = np.eye(32)
    for t in range(32):
        dense = made(t).matrix() @ dense
    assert 1 - found.gap == pytest.approx(np.linalg.norm(dense - 1 / 32, 2) ** (1 / 32))


def test_the_mean_degree_of_a_users_schedule_is_that_of_its_rounds() -> None:
    made = Varying("own", 8, lambda t, epoch: complete(8) if t % 4 == 0 else ring(8))
    assert describe(made).messages_per_step == pytest.approx((7 + 3 * 2) / 4)
    assert describe(made).rounds == 1


@settings(deadline=None, max_examples=30)
@given(n=st.integers(2, 40), degree=st.sampled_from([1, 7, 12, 39]), width=st.integers(1, 3))
def test_mixing_is_a_product_with_the_matrix(n: int, degree: int, width: int) -> None:
    topologies: list[Topology] = [ring(n), complete(n), exponential(n), ring(n, directed=True)]
    x = np.random.default_rng(degree).standard_normal((n, width))
    for topology in topologies:
        np.testing.assert_allclose(topology.mixing()(x), topology.matrix() @ x, atol=1e-13)


@pytest.mark.parametrize("shape", [(100,), (9, 16)])
def test_mixing_by_fourier_transforms_is_a_product_with_the_matrix(shape: tuple[int, ...]) -> None:
    n = int(np.prod(shape))
    for topology in (complete(n), schedule(f"d_equistatic:m={70 if n == 100 else 90},seed=1", n)(0)):
        x = np.random.default_rng(0).standard_normal((n, 3))
        np.testing.assert_allclose(topology.mixing()(x), topology.matrix() @ x, atol=1e-12)


def test_fingerprints_tell_edges_and_weights_apart() -> None:
    first = MatrixTopology("own", [[0.5, 0.5], [0.5, 0.5]])
    weights = MatrixTopology("own", [[0.6, 0.4], [0.4, 0.6]])
    same = MatrixTopology("own", [[0.5, 0.5], [0.5, 0.5]])
    prints = [fingerprint(Static(one)) for one in (first, weights, same)]
    assert prints[0] == prints[2] != prints[1]
    assert fingerprint(schedule("random_ring", 8)) == fingerprint(schedule("random_ring", 8))
    texts = ["random_ring", "random_ring:seed=1", "ring", "ring:weights=lazy", "base_k", "base_k:k=2", "star"]
    assert len({fingerprint(schedule(text, 8)) for text in texts}) == len(texts)
    early = Varying("own", 8, lambda t, epoch: ring(8) if t < 3 else exponential(8))
    late = Varying("own", 8, lambda t, epoch: ring(8) if t < 4 else exponential(8))
    assert fingerprint(early) != fingerprint(late)


def test_rounds_that_together_never_join_all_are_refused() -> None:
    apart = MatrixTopology("apart", np.kron(np.eye(2), np.full((2, 2), 0.5)))
    alone = MatrixTopology("alone", np.eye(4))
    made = Varying("own", 4, lambda t, epoch: (apart, alone)[t], period=2)
    with pytest.raises(ValueError, match="graph 'own' is not connected: replicas 0 and 2 never hear of each other"):
        schedule(made, 4)


def test_rounds_that_undo_each_other_are_refused() -> None:
    """The graphs join all, but what one round brings the next takes back."""
    made = Varying("own", 2, lambda t, epoch: MatrixTopology(f"swap {t}", SWAP), period=2)
    with pytest.raises(ValueError, match="graph 'own' is not connected"):
        schedule(made, 2)


def test_rounds_that_join_all_only_together_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [np.kron(np.eye(2), np.full((2, 2), 0.5)), np.full((4, 4), 0.0)]
    pairs[1][[0, 0, 2, 2], [0, 2, 0, 2]] = pairs[1][[1, 1, 3, 3], [1, 3, 1, 3]] = 0.5
    made = Varying("own", 4, lambda t, epoch: MatrixTopology(f"own {t}", pairs[t]), period=2)
    assert schedule(made, 4) is made
    monkeypatch.setattr("hvd_gossip.graphs.limits.LARGEST_PERIOD", 3)
    made.checked = False
    assert schedule(made, 4) is made


def test_a_schedule_that_loses_the_mean_is_told_once_with_its_limit() -> None:
    uneven = MatrixTopology("uneven", [[0.5, 0.5], [0.25, 0.75]])
    made = Varying("own", 2, lambda t, epoch: (uneven, ring(2))[t], period=2)
    with pytest.warns(UserWarning, match=r"graph 'own': W is not doubly stochastic in 'uneven'.*even: 0.5") as told:
        schedule(made, 2)
    assert len(told) == 1
    # pi P = pi of P = R U by hand: both rows of P are the mean row of U.
    assert "replica 1 counts 0.625 and replica 0 0.375" in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule(made, 2)


def test_a_rule_that_loses_the_mean_is_told_of_the_schedule_once() -> None:
    with pytest.warns(UserWarning, match="graph 'alternating:.*weights=uniform': W is not doubly") as told:
        schedule("alternating:groups=4,outer=star,weights=uniform", 12)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule("random_matching:weights=lazy", 9)


def test_a_graph_stands_for_the_schedule_that_it_makes() -> None:
    assert describe(ring(8)).gap == describe(Static(ring(8))).gap
    assert simulate(ring(8)).tolist() == simulate(Static(ring(8))).tolist()
    assert period_factor(ring(8)) == 1 - spectral_gap(ring(8))
    assert schedule_cost(ring(8), 1e6, Machine()) == gossip_cost(ring(8), 1e6, Machine())


@pytest.mark.parametrize("call", [spectral_gap, contraction, lambda made: gossip_cost(made, 1e6, Machine())])
def test_a_schedule_is_no_graph(call: Any) -> None:
    with pytest.raises(ValueError, match=r"expected a Topology; of a schedule give one round, schedule\(round\)"):
        call(alternating(12))


def test_what_is_no_graph_is_told_alike_on_all_ranks() -> None:
    with pytest.raises(ValueError, match="got graph = a function ring: expected a Topology or a Schedule"):
        as_schedule(ring)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"second_moment": 3}, "got second_moment = 3, expected 0 to 1"),
        ({"second_moment": float("nan")}, "got second_moment = nan"),
        ({"random": "yes"}, "got random = 'yes', expected true or false"),
    ],
)
def test_what_is_told_of_a_schedule_is_looked_at(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Varying("own", 4, lambda t, epoch: ring(4), **options)


@pytest.mark.parametrize("clock", [{"round": -1}, {"round": 1.5}, {"round": 0, "epoch": -1}])
def test_a_round_is_a_number_from_0(clock: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected an integer of at least 0"):
        schedule("random_ring", 4)(**clock)
