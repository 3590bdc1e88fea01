"""Sequences that average exactly: base-(k+1) graphs, hyper-hypercubes, the one-peer exponential graph."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from hvd_gossip.graphs import Schedule, base_k, hyper_hypercube, one_peer_exponential, simple_base

SIZES = range(1, 129)
DEGREES = range(1, 5)
BASES = [base_k, simple_base]

each_base = pytest.mark.parametrize("factory", BASES, ids=lambda factory: factory.__name__)
each_degree = pytest.mark.parametrize("k", DEGREES)


@cache
def period_of(factory: Callable[..., Schedule], n: int, k: int | None) -> list[sp.csr_array]:
    """W of every round of a period."""
    made = factory(n) if k is None else factory(n, k)
    assert made.period is not None
    return [made(t).matrix() for t in range(made.period)]


def error(rounds: list[sp.csr_array], start: int = 0, count: int | None = None) -> float:
    """The largest entry of |W(start + count - 1) … W(start) - 11^T/n|, a whole period unless told otherwise."""
    n = rounds[0].shape[0]
    product = np.eye(n)
    for t in range(start, start + (len(rounds) if count is None else count)):
        product = rounds[t % len(rounds)] @ product
    return float(np.abs(product - 1 / n).max())


def others_heard(matrix: sp.csr_array) -> int:
    """The most others that a rank hears."""
    dense = matrix.toarray()
    return int(np.count_nonzero(dense - np.diag(np.diag(dense)), axis=1).max())


def prime_factors(n: int) -> list[int]:
    return next(([p, *prime_factors(n // p)] for p in range(2, n + 1) if n % p == 0), [])


def smooth(n: int, k: int) -> bool:
    return max(prime_factors(n), default=1) <= k + 1


@each_base
@each_degree
def test_a_period_averages_exactly(factory: Any, k: int) -> None:
    assert max(error(period_of(factory, n, k)) for n in SIZES) < 1e-13


@each_base
@each_degree
def test_no_shorter_run_from_the_start_averages_exactly(factory: Any, k: int) -> None:
    for n in range(2, 65):
        rounds = period_of(factory, n, k)
        assert error(rounds, count=len(rounds) - 1) > 1e-3, n


@each_base
@each_degree
def test_from_any_phase_a_period_is_exact_where_n_has_no_large_factor(factory: Any, k: int) -> None:
    """All rounds are then commuting projections."""
    for n in filter(lambda n: smooth(n, k), SIZES):
        rounds = period_of(factory, n, k)
        assert max(error(rounds, start) for start in range(len(rounds))) < 1e-13, n


@each_base
@settings(deadline=None, max_examples=60)
@given(n=st.integers(1, 128), k=st.integers(1, 4), start=st.integers(0, 20))
def test_from_any_phase_two_periods_hold_a_whole_one(factory: Any, n: int, k: int, start: int) -> None:
    rounds = period_of(factory, n, k)
    assert error(rounds, start, 2 * len(rounds) - 1) < 1e-13


def test_three_replicas_in_pairs_are_exact_from_the_start_of_a_period_alone() -> None:
    rounds = period_of(base_k, 3, 1)
    assert [error(rounds, start) < 1e-13 for start in range(len(rounds))] == [True, *[False] * (len(rounds) - 1)]


@each_base
@each_degree
def test_every_round_is_symmetric_and_doubly_stochastic_with_at_most_k_neighbours(factory: Any, k: int) -> None:
    for n in SIZES:
        rounds = period_of(factory, n, k)
        for W in rounds:
            assert (W.data >= 0).all()
            assert abs(W - W.T).max() == 0
            np.testing.assert_allclose(W.sum(axis=0), 1, atol=1e-14)
        most = max(map(others_heard, rounds))
        assert most == factory(n, k).degree <= min(k, n - 1)


@each_base
@each_degree
def test_a_period_has_at_most_twice_the_logarithm_and_two_rounds(factory: Any, k: int) -> None:
    """In integers: T <= 2 log_{k+1}(n) + 2 is (k + 1)^(T - 2) <= n^2."""
    for n in [*SIZES, 1000, 1008, 4095, 99_991, 10**6]:
        period = factory(n, k).period
        assert period >= 1
        assert (k + 1) ** max(0, period - 2) <= n**2, n


@each_degree
def test_the_base_graph_is_never_longer_than_the_simple_one(k: int) -> None:
    longer = [n for n in [*range(1, 600), 1008, 4095, 99_990] if base_k(n, k).period > simple_base(n, k).period]
    assert longer == []
    assert any(base_k(n, k).period < simple_base(n, k).period for n in SIZES)


def test_rounds_of_two_neighbours_that_are_known() -> None:
    assert [base_k(n, k=2).period for n in (12, 24, 48, 96)] == [3, 4, 5, 6]


def test_more_neighbours_than_replicas_average_in_one_round() -> None:
    assert [base_k(n, k=9).period for n in range(1, 11)] == [1] * 10
    assert error(period_of(base_k, 10, 9)) < 1e-15


@given(n=st.integers(1, 128))
@settings(deadline=None, max_examples=60)
def test_a_hyper_hypercube_averages_one_prime_factor_a_round(n: int) -> None:
    rounds, factors = period_of(hyper_hypercube, n, None), prime_factors(n)
    assert len(rounds) == max(1, len(factors))
    assert max(error(rounds, start) for start in range(len(rounds))) < 1e-13
    assert hyper_hypercube(n).degree == max(factors, default=1) - 1
    sizes = sorted(others_heard(W) + 1 for W in rounds)
    assert sizes == sorted(factors or [1])
    for W in rounds:
        np.testing.assert_allclose(W.data, 1 / (others_heard(W) + 1), rtol=1e-13)


def fewest(n: int, largest: int) -> int:
    """The least number of factors up to `largest` that multiply to n, by trying all numbers of them."""
    for count in itertools.count():
        tuples = itertools.combinations_with_replacement(range(2, largest + 1), count)
        if any(math.prod(factors) == n for factors in tuples):
            return count
    raise AssertionError


@each_degree
def test_a_hyper_hypercube_with_few_neighbours_has_the_fewest_rounds(k: int) -> None:
    for n in filter(lambda n: smooth(n, k), range(2, 129)):
        made = hyper_hypercube(n, k)
        assert made.period == fewest(n, k + 1), n
        assert made.degree <= k
        assert error(period_of(hyper_hypercube, n, k)) < 1e-13


def test_a_hyper_hypercube_with_too_few_neighbours_is_refused() -> None:
    text = r"14 replicas have the prime factor 7: expected k of at least 6, or use base_k"
    with pytest.raises(ValueError, match=text):
        hyper_hypercube(14, k=5)
    assert hyper_hypercube(14, k=6).period == 2


@pytest.mark.parametrize("n", SIZES)
def test_the_one_peer_exponential_graph_is_exact_iff_n_is_a_power_of_two(n: int) -> None:
    rounds = period_of(one_peer_exponential, n, None)
    assert len(rounds) == max(1, math.ceil(math.log2(n)))
    errors = [error(rounds, start) for start in range(len(rounds))]
    assert max(errors) < 1e-15 if n & (n - 1) == 0 else min(errors) > 1e-3
    for t, W in enumerate(rounds if n > 1 else []):
        expected = (np.eye(n) + np.roll(np.eye(n), -(2**t), axis=1)) / 2
        np.testing.assert_array_equal(W.toarray(), expected)


def test_one_peer_among_twelve_leaves_a_known_error() -> None:
    assert f"{error(period_of(one_peer_exponential, 12, None)):.4f}" == "0.0417"


@pytest.mark.parametrize("factory", [base_k, simple_base, hyper_hypercube, one_peer_exponential])
@settings(deadline=None, max_examples=30)
@given(n=st.integers(1, 80), k=st.integers(1, 4), t=st.integers(0, 40))
def test_rows_agree_with_the_matrix(factory: Any, n: int, k: int, t: int) -> None:
    topology = (factory(n, k) if factory in BASES else factory(n))(t)
    W = topology.matrix().toarray()
    for rank in range(n):
        row, others = topology.row(rank), np.arange(n) != rank
        np.testing.assert_array_equal(row.sources, np.flatnonzero((W[rank] != 0) & others))
        np.testing.assert_array_equal(row.destinations, np.flatnonzero((W[:, rank] != 0) & others))
        np.testing.assert_array_equal(row.source_weights, W[rank, row.sources])
        assert row.self_weight == W[rank, rank]


@each_base
@pytest.mark.parametrize("n", [10_007, 30_030])
def test_many_replicas_average_exactly(factory: Any, n: int) -> None:
    x = np.random.default_rng(0).standard_normal(n)
    mixed = x
    for W in period_of(factory, n, 3):
        mixed = W @ mixed
    np.testing.assert_allclose(mixed, x.mean(), atol=1e-12)


@each_base
@settings(deadline=None, max_examples=20)
@given(rank=st.integers(0, 99_990), t=st.integers(0, 40))
def test_two_ends_of_an_edge_among_many_replicas_agree(factory: Any, rank: int, t: int) -> None:
    topology = factory(99_991, 2)(t)
    row = topology.row(rank)
    assert row.self_weight + row.source_weights.sum() == pytest.approx(1, abs=1e-15)
    for source, weight in zip(row.sources.tolist(), row.source_weights, strict=True):
        back = topology.row(source)
        assert back.source_weights[back.sources == rank].tolist() == [weight]


@pytest.mark.parametrize("factory", [base_k, simple_base, hyper_hypercube, one_peer_exponential])
def test_one_replica_stays_as_it_is(factory: Any) -> None:
    made = factory(1)
    assert (made.period, made.degree) == (1, 0)
    np.testing.assert_array_equal(made(3).matrix().toarray(), [[1]])


@pytest.mark.parametrize("factory", [base_k, simple_base, hyper_hypercube])
@pytest.mark.parametrize("k", [0, -1, 1.5, True, "2"])
def test_a_bad_number_of_neighbours_is_refused(factory: Any, k: Any) -> None:
    with pytest.raises(ValueError, match=rf"graph '{factory.__name__}:k=.*got k = {k!r}, expected an integer of at le"):
        factory(8, k=k)
