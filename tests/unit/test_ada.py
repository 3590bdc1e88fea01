"""Ada: the number of neighbours by epoch or round, its limits, defaults and refusals."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hvd_gossip.graphs import ada, complete, ring_lattice, schedule


def degree_of(topology: Any) -> int:
    hears, heard_by = topology.degrees()
    assert hears.min() == hears.max() == heard_by.min() == heard_by.max()
    return int(hears[0])


def neighbours(n: int, k: int) -> int:
    """Odd values are rounded down to even, values of n - 1 or more mean the complete graph."""
    return n - 1 if k >= n - 1 else k - k % 2


@settings(deadline=None, max_examples=80)
@given(
    n=st.integers(4, 60),
    k0=st.integers(2, 80),
    hundredths=st.integers(0, 400),
    k_min=st.integers(2, 6),
    epoch=st.integers(0, 500),
)
def test_neighbours_fall_by_the_formula(n: int, k0: int, hundredths: int, k_min: int, epoch: int) -> None:
    gamma, start = hundredths / 100, max(k0, k_min)
    found = ada(n, k0=start, gamma=gamma, k_min=k_min)
    k = max(start - int(gamma * epoch), k_min)
    topology = found(round=7, epoch=epoch)
    assert degree_of(topology) == neighbours(n, k)
    expected = complete(n) if neighbours(n, k) == n - 1 else ring_lattice(n, neighbours(n, k))
    np.testing.assert_array_equal(topology.matrix().toarray(), expected.matrix().toarray())
    assert found.degree == degree_of(found(0, 0))


def test_neighbours_of_ninety_six_replicas_over_the_epochs() -> None:
    """k0 = 10, gamma = 0.02: a neighbour is lost every 50 epochs, one at each side every 100."""
    found = ada(96, k0=10, gamma=0.02)
    degrees = {epoch: degree_of(found(0, epoch)) for epoch in (0, 49, 50, 149, 150, 249, 250, 350, 399, 10**6)}
    assert degrees == {0: 10, 49: 10, 50: 8, 149: 8, 150: 6, 249: 6, 250: 4, 350: 2, 399: 2, 10**6: 2}


def test_it_is_the_lattice_of_networkx() -> None:
    found = ada(24, k0=8, gamma=1)
    for epoch, k in ((0, 8), (1, 6), (2, 6), (3, 4), (6, 2), (50, 2)):
        edges = nx.Graph(found(0, epoch).to_networkx().edges())
        assert nx.utils.graphs_equal(nx.watts_strogatz_graph(24, k, 0), edges)


def test_rounds_instead_of_epochs() -> None:
    by_round, by_epoch = ada(20, k0=10, gamma=0.5, by="round"), ada(20, k0=10, gamma=0.5)
    for time in range(30):
        assert degree_of(by_round(time, epoch=99)) == degree_of(by_epoch(99, epoch=time))
    assert degree_of(by_round(0, epoch=50)) == degree_of(by_epoch(50, epoch=0)) == 10


@pytest.mark.parametrize("k0", [9, 10, 11, 50])
def test_as_many_neighbours_as_there_are_mean_the_complete_graph(k0: int) -> None:
    assert ada(10, k0=k0, gamma=1)(0, 0).name == "complete"
    assert degree_of(ada(10, k0=k0, gamma=1)(0, k0 - 8)) == 8


def test_odd_starts_are_rounded_down() -> None:
    found = ada(20, k0=7, gamma=1)
    assert [degree_of(found(0, epoch)) for epoch in range(7)] == [6, 6, 4, 4, 2, 2, 2]
    assert found.degree == 6


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("k0", [None, 2, 10])
def test_few_replicas_are_always_complete(n: int, k0: int | None) -> None:
    found = ada(n, k0=k0)
    assert found.degree == n - 1
    for epoch in (0, 1, 1000):
        np.testing.assert_array_equal(found(3, epoch).matrix().toarray(), complete(n).matrix().toarray())


@pytest.mark.parametrize(("n", "k0"), [(1008, 112), (96, 10), (36, 4), (18, 2), (8, 2)])
def test_the_default_start_is_a_ninth_of_the_replicas(n: int, k0: int) -> None:
    found = ada(n)
    assert degree_of(found(0, 0)) == found.degree == k0
    assert degree_of(found(0, 100)) == 2


def test_the_default_pace_reaches_the_least_number_after_a_hundred_epochs() -> None:
    found = ada(1008, k0=202)
    assert [degree_of(found(0, epoch)) for epoch in (0, 50, 99, 100, 500)] == [202, 102, 4, 2, 2]
    slow = ada(1008, k0=202, k_min=102)
    assert [degree_of(slow(0, epoch)) for epoch in (0, 50, 100, 500)] == [202, 152, 102, 102]


def test_a_pace_of_nothing_keeps_the_start() -> None:
    found = ada(12, k0=6, gamma=0)
    assert degree_of(found(0, 10**9)) == 6


def test_it_has_no_period_and_is_not_random() -> None:
    found = schedule("ada:k0=6,gamma=0.5,by=round", 12)
    assert (found.name, found.n, found.period) == ("ada:k0=6,gamma=0.5,by=round", 12, None)
    assert not found.random  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"k0": 1}, r"got k0 = 1, expected at least k_min = 2"),
        ({"k0": 4, "k_min": 6}, r"got k0 = 4, expected at least k_min = 6"),
        ({"k0": 2.5}, r"got k0 = 2\.5, expected an integer of at least 1"),
        ({"k0": True}, r"got k0 = True, expected an integer"),
        ({"k_min": 1}, r"got k_min = 1, expected an integer of at least 2"),
        ({"gamma": -0.1}, r"got gamma = -0\.1, expected a number of at least 0"),
        ({"gamma": float("nan")}, r"got gamma = nan, expected a number of at least 0"),
        ({"gamma": float("inf")}, r"got gamma = inf, expected a number"),
        ({"gamma": "fast"}, r"got gamma = 'fast', expected a number"),
        ({"gamma": True}, r"got gamma = True, expected a number"),
        ({"by": "step"}, r"unknown clock of ada 'step': expected one of epoch, round"),
        ({"by": "epochs"}, r"did you mean 'epoch'\?"),
    ],
)
def test_mistakes_are_told(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ada(24, **options)


def test_numbers_of_numpy_are_numbers() -> None:
    found = ada(np.int64(24), k0=np.int64(6), gamma=np.float64(1.0))  # type: ignore[arg-type]
    assert [degree_of(found(0, epoch)) for epoch in (0, 2, 9)] == [6, 4, 2]
    assert degree_of(ada(24, k0=6, gamma=np.int64(1))(0, 2)) == 4  # type: ignore[arg-type]
