"""Random schedules: what a round looks like, and that all possible ones are drawn equally often."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import chisquare

from hvd_gossip.graphs import Relabelled, od_equidyn, ou_equidyn, random_matching, random_ring, ring, star
from hvd_gossip.graphs.equitopo import matching_of_shift

SEEDS = st.integers(0, 10**6)
ROUNDS = st.integers(0, 10**6)
UNLIKELY = 1e-3
"""An even draw gives a statistic this large once in a thousand seeds; the seeds here are fixed."""


def dense(topology: Any) -> np.ndarray:
    return topology.matrix().toarray()


def pairs(topology: Any) -> frozenset[tuple[int, int]]:
    """Edges of a symmetric graph, each once."""
    rows, columns = np.nonzero(np.triu(dense(topology), k=1))
    return frozenset(zip(rows.tolist(), columns.tolist(), strict=True))


def evenness(drawn: Iterable[Hashable], possible: int) -> float:
    """The probability of counts at least as uneven as these, if all values are equally likely."""
    counts = list(Counter(drawn).values())
    assert len(counts) <= possible
    return float(chisquare([*counts, *[0] * (possible - len(counts))]).pvalue)


@settings(deadline=None, max_examples=40)
@given(n=st.integers(1, 20), seed=st.integers(0, 1000), base=st.sampled_from([ring, star]), directed=st.booleans())
def test_a_relabelled_graph_is_its_base_with_ranks_exchanged(n: int, seed: int, base: Any, directed: bool) -> None:
    original = ring(n, directed=True) if directed else base(n)
    p = np.random.default_rng(seed).permutation(n)
    P = np.eye(n)[p]
    topology = Relabelled("own", original, p)
    assert P[0, p[0]] == 1
    np.testing.assert_array_equal(dense(topology), P.T @ dense(original) @ P)
    assert topology.symmetric == original.symmetric
    assert topology.doubly_stochastic


@pytest.mark.parametrize("p", [[0, 1, 1], [0, 1], [1, 2, 3], [0, 1, 2, 3]])
def test_what_is_no_permutation_is_refused(p: list[int]) -> None:
    with pytest.raises(ValueError, match="graph 'own': expected a permutation of 0 to 2"):
        Relabelled("own", ring(3), np.array(p))


@settings(deadline=None, max_examples=40)
@given(n=st.integers(3, 30), seed=SEEDS, t=ROUNDS)
def test_a_random_ring_is_one_cycle_through_all_replicas(n: int, seed: int, t: int) -> None:
    topology = random_ring(n, seed)(t)
    W = dense(topology)
    cycle = nx.Graph(list(pairs(topology)))
    assert nx.is_connected(cycle)
    assert [degree for _, degree in cycle.degree] == [2] * n
    np.testing.assert_array_equal(np.unique(W[W != 0]), [1 / 3])
    np.testing.assert_allclose(np.linalg.eigvalsh(W), np.linalg.eigvalsh(dense(ring(n))), atol=1e-12)


@settings(deadline=None, max_examples=40)
@given(n=st.integers(1, 31), seed=SEEDS, t=ROUNDS)
def test_random_pairs_leave_one_alone_exactly_where_n_is_odd(n: int, seed: int, t: int) -> None:
    W = dense(random_matching(n, seed)(t))
    np.testing.assert_array_equal(W @ W, W)
    np.testing.assert_array_equal(W, W.T)
    assert (np.diag(W) == 1).sum() == n % 2
    assert (W == 0.5).sum() == 2 * (n - n % 2)


def test_all_rings_are_equally_likely() -> None:
    made = random_ring(5, seed=1)
    assert evenness((pairs(made(t)) for t in range(1500)), math.factorial(4) // 2) > UNLIKELY


@pytest.mark.parametrize(("n", "possible"), [(4, 3), (5, 15), (6, 15)])
def test_all_matchings_are_equally_likely(n: int, possible: int) -> None:
    made = random_matching(n, seed=1)
    assert evenness((pairs(made(t)) for t in range(1500)), possible) > UNLIKELY


def test_each_pair_meets_equally_often() -> None:
    """The partner of each of ten replicas; in many rounds, none of them may have a favourite."""
    made = random_matching(10, seed=2)
    partners = np.array([[made(t).row(rank).sources[0] for rank in (0, 4, 9)] for t in range(1500)])
    assert all(evenness(column.tolist(), 9) > UNLIKELY for column in partners.T)


@pytest.mark.parametrize("factory", [random_matching, od_equidyn])
def test_a_round_tells_nothing_of_the_next(factory: Any) -> None:
    made = factory(4, seed=3)
    heard = [int(made(t).row(0).sources[0]) for t in range(1500)]
    assert evenness(itertools.pairwise(heard), 9) > UNLIKELY


def test_all_shifts_are_equally_likely() -> None:
    made = od_equidyn(9, seed=4)
    assert evenness((int(made(t).row(0).sources[0]) for t in range(1500)), 8) > UNLIKELY


def shift(n: int, a: int) -> np.ndarray:
    """A_a = (n - 1)/n P_a + I/n."""
    return (n - 1) / n * np.roll(np.eye(n), a, axis=1) + np.eye(n) / n


@settings(deadline=None, max_examples=40)
@given(n=st.integers(2, 30), eta=st.floats(0.01, 1), seed=SEEDS, t=ROUNDS)
def test_a_round_of_od_equidyn_is_one_shift(n: int, eta: float, seed: int, t: int) -> None:
    topology = od_equidyn(n, eta=eta, seed=seed)(t)
    a = int(topology.row(0).sources[0])
    np.testing.assert_allclose(dense(topology), (1 - eta) * np.eye(n) + eta * shift(n, a), atol=1e-15)


def test_the_step_of_one_peer_is_the_authors_by_default() -> None:
    weights = [factory(8, seed=1)(0).row(0).source_weights for factory in (od_equidyn, ou_equidyn)]
    np.testing.assert_allclose(weights, [[0.53 * 7 / 8]] * 2, rtol=1e-15)


@pytest.mark.parametrize("n", range(2, 25))
def test_every_shift_and_start_of_ou_equidyn_pairs_replicas_at_that_distance(n: int) -> None:
    for a, start in itertools.product(range(1, n), range(n)):
        W = dense(matching_of_shift("own", n, a, start, 0.25))
        cycles = math.gcd(n, a)
        np.testing.assert_array_equal(W, W.T)
        off = W - np.diag(np.diag(W))
        assert set(np.count_nonzero(off, axis=1)) <= {0, 1}
        assert (off.sum(axis=1) == 0).sum() == (cycles if n // cycles % 2 else 0)
        np.testing.assert_allclose(np.diag(W), 1 - off.sum(axis=1))
        assert set(np.unique(off)) == {0, 0.25}
        i, j = np.nonzero(off)
        assert set(((i - j) % n).tolist()) <= {a, n - a}


@pytest.mark.parametrize("n", range(2, 25))
def test_ou_equidyn_averages_exactly_in_expectation_where_no_cycle_is_odd(n: int) -> None:
    """E[A] = 11^T/n; in a cycle of odd length L an edge is left out a little more often, by a factor 1 - 1/L."""
    eta = 0.6
    weight = eta * (n - 1) / n
    choices = [(a, start) for a in range(1, n) for start in range(n)]
    mean = sum(dense(matching_of_shift("own", n, a, start, weight)) for a, start in choices) / len(choices)
    lengths = np.array([1, *(n // math.gcd(n, a) for a in range(1, n))])
    row = weight / (n - 1) * np.where(lengths % 2, 1 - 1 / lengths, 1)
    row[0] = 1 - row[1:].sum()
    np.testing.assert_allclose(mean, [np.roll(row, rank) for rank in range(n)], atol=1e-14)
    if n & (n - 1) == 0:
        np.testing.assert_allclose(mean, (1 - eta) * np.eye(n) + eta * np.full((n, n), 1 / n), atol=1e-14)


@pytest.mark.parametrize("n", [5, 8])
def test_ou_equidyn_draws_all_shifts_and_starts_equally(n: int) -> None:
    expected = Counter(pairs(matching_of_shift("own", n, a, s, 0.5)) for a in range(1, n) for s in range(n))
    made, rounds = ou_equidyn(n, seed=5), 2000
    found = Counter(pairs(made(t)) for t in range(rounds))
    assert set(found) <= set(expected)
    shares = np.array([expected[key] for key in expected]) * rounds / expected.total()
    assert chisquare([found[key] for key in expected], shares).pvalue > UNLIKELY


@pytest.mark.parametrize("factory", [od_equidyn, ou_equidyn])
@pytest.mark.parametrize("eta", [0, -0.5, 1.01, float("nan"), float("inf"), "big", True])
def test_a_bad_step_is_refused(factory: Any, eta: Any) -> None:
    with pytest.raises(ValueError, match=f"got eta = {eta!r}, expected a number above 0, at most 1"):
        factory(8, eta=eta)


@pytest.mark.parametrize("factory", [random_ring, random_matching, od_equidyn, ou_equidyn])
def test_one_replica_stays_alone(factory: Any) -> None:
    made = factory(1)
    assert (made.degree, dense(made(7)).tolist()) == (0, [[1]])


@pytest.mark.parametrize("factory", [random_ring, random_matching, od_equidyn, ou_equidyn])
def test_a_row_among_many_replicas_agrees_with_its_partner(factory: Any) -> None:
    n, rank = 100_003, 77_777
    topology = factory(n, seed=1)(9)
    row = topology.row(rank)
    assert row.self_weight + row.source_weights.sum() == pytest.approx(1, abs=1e-15)
    for source in row.sources.tolist():
        assert rank in topology.row(source).destinations
    for destination in row.destinations.tolist():
        assert rank in topology.row(destination).sources
