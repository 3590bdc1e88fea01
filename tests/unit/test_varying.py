"""Varying: a user's own function of round and epoch, and what is refused of it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from hvd_gossip.graphs import MatrixTopology, Topology, Varying, complete, ring, schedule


def ring_then_complete(round: int, epoch: int) -> Topology:
    return ring(8) if epoch < 5 else complete(8)


def test_a_users_function_is_told_round_and_epoch() -> None:
    made = schedule(Varying("mine", 8, ring_then_complete, degree=7), 8)
    assert (made.name, made.n, made.period) == ("mine", 8, None)
    assert [made(round=100, epoch=epoch).name for epoch in (0, 4, 5, 9)] == ["ring", "ring", "complete", "complete"]
    assert [made(round, 4).name for round in range(3)] == ["ring"] * 3


def test_what_is_remembered_mixes_neither_rounds_nor_epochs() -> None:
    """More pairs than are remembered, in an order that comes back to each."""
    made = Varying("mine", 4, lambda round, epoch: MatrixTopology(f"{round} {epoch}", np.full((4, 4), 0.25)))
    pairs = [(round, epoch) for round in range(4) for epoch in range(4)]
    for round, epoch in [*pairs, *pairs[::-1], *pairs[::3]]:
        assert made(round, epoch).name == f"{round} {epoch}"


def test_a_round_asked_again_is_not_made_again() -> None:
    asked: list[tuple[int, int]] = []

    def function(round: int, epoch: int) -> Topology:
        asked.append((round, epoch))
        return ring(8)

    made = Varying("mine", 8, function)
    assert made(3, 1) is made(3, 1)
    assert asked == [(3, 1)]


def test_a_function_with_a_period_is_asked_for_rounds_below_it_alone() -> None:
    asked: set[tuple[int, int]] = set()

    def function(round: int, epoch: int) -> Topology:
        asked.add((round, epoch))
        return (ring, complete, ring)[round](8)

    made = Varying("mine", 8, function, period=3)
    names = [made(round, epoch=round // 2).name for round in range(9)]
    assert names == ["ring", "complete", "ring"] * 3
    assert asked == {(0, 0), (1, 0), (2, 0)}
    assert made.period == 3


def test_what_is_known_of_a_schedule_is_told() -> None:
    made = Varying("mine", 8, ring_then_complete, degree=7, random=True, second_moment=0.25)
    assert (made.degree, made.random, made.second_moment) == (7, True, 0.25)
    bare = Varying("mine", 8, ring_then_complete)
    assert (bare.period, bare.degree, bare.random, bare.second_moment) == (None, None, False, None)
    assert "mine" in repr(bare)
    assert "n=8" in repr(bare)


@pytest.mark.parametrize("given", [None, np.full((8, 8), 1 / 8), "ring", ring, 3])
@pytest.mark.parametrize("period", [None, 2])
def test_what_is_no_topology_is_refused(given: Any, period: int | None) -> None:
    made = Varying("mine", 8, lambda round, epoch: given, period=period)
    text = f"graph 'mine': round 5, epoch 2 gave {given!r}, expected a Topology of 8 replicas"
    with pytest.raises(ValueError, match=re.escape(text)):
        made(5, 2)


def test_a_topology_of_another_size_is_refused() -> None:
    made = Varying("mine", 8, lambda round, epoch: ring(8 if round < 3 else 9))
    assert made(2).n == 8
    with pytest.raises(ValueError, match=r"graph 'mine': round 3, epoch 0 gave .*n=9\), expected a Topology of 8"):
        made(3)


def test_an_error_of_the_users_function_is_left_as_it_is() -> None:
    def function(round: int, epoch: int) -> Topology:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Varying("mine", 8, function)(0)


@pytest.mark.parametrize("period", [0, -1, 2.0, True, "2"])
def test_a_period_that_is_no_integer_is_refused(period: Any) -> None:
    with pytest.raises(ValueError, match=f"graph 'mine': got period = {period!r}, expected an integer of at least 1"):
        Varying("mine", 8, ring_then_complete, period=period)


@pytest.mark.parametrize("degree", [-1, 2.5, True, "2", 8])
def test_a_degree_that_does_not_fit_is_refused(degree: Any) -> None:
    with pytest.raises(ValueError, match=f"graph 'mine': got degree = {degree!r}, expected"):
        Varying("mine", 8, ring_then_complete, degree=degree)


def test_integers_of_numpy_are_integers() -> None:
    assert Varying("mine", np.int64(8), ring_then_complete, period=np.int64(2)).period == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [0, -2, 2.5, None])
def test_a_bad_number_of_replicas_is_refused(n: Any) -> None:
    with pytest.raises(ValueError, match=f"graph 'mine': got n = {n!r}, expected an integer number of replicas"):
        Varying("mine", n, ring_then_complete)


def test_a_schedule_made_for_another_number_of_replicas_is_refused() -> None:
    with pytest.raises(ValueError, match="graph 'mine' is made for 8 replicas, but this job has 4 ranks"):
        schedule(Varying("mine", 8, ring_then_complete), 4)
