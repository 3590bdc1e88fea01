"""MATCHA: matchings of the base graph, probabilities within the budget that connect most, and the best step."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from hvd_gossip.graphs import matcha, schedule, torus
from hvd_gossip.graphs.matcha import laplacian, matchings, plan
from hvd_gossip.graphs.registry import static

BASES = [
    ("ring", 8),
    ("ring", 7),
    ("star", 6),
    ("binary_tree", 15),
    ("torus", 12),
    ("hypercube", 8),
    ("complete", 5),
    ("complete", 6),
    ("watts_strogatz:k=4,seed=1", 14),
]
BUDGETS = [0.1, 0.3, 0.5, 0.9]

each_base = pytest.mark.parametrize(("base", "n"), BASES)
each_budget = pytest.mark.parametrize("budget", BUDGETS)


def dense(topology: Any) -> np.ndarray:
    return topology.matrix().toarray()


def edges(matrix: np.ndarray) -> np.ndarray:
    return (matrix != 0) & ~np.eye(len(matrix), dtype=bool)


def connectivity(laplacians: np.ndarray, p: np.ndarray) -> float:
    """lambda_2 of the expected Laplacian."""
    return float(np.linalg.eigvalsh(np.tensordot(p, laplacians, axes=1))[1])


def second_eigenvalue(laplacians: np.ndarray, p: np.ndarray, step: float) -> float:
    """||E[W^T W] - J|| by all subsets of the matchings."""
    n = len(laplacians[0])
    mean = -np.full((n, n), 1 / n)
    for used in itertools.product((False, True), repeat=len(p)):
        W = np.eye(n) - step * laplacians[list(used)].sum(axis=0)
        mean += np.prod(np.where(used, p, 1 - p)) * W.T @ W
    return float(np.abs(np.linalg.eigvalsh(mean)).max())


@each_base
def test_matchings_hold_every_edge_of_the_base_once(base: str, n: int) -> None:
    topology = static(base, n)
    partners = matchings(topology)
    np.testing.assert_array_equal(np.sort(partners, axis=1), [np.arange(n)] * len(partners))
    for partner in partners:
        np.testing.assert_array_equal(partner[partner], np.arange(n))
    covered = sum(np.diag(np.diag(laplacian(partner))) - laplacian(partner) for partner in partners)
    np.testing.assert_array_equal(covered, edges(dense(topology)))
    assert len(partners) >= edges(dense(topology)).sum(axis=0).max()


@pytest.mark.parametrize(("base", "n", "count"), [("ring", 8, 2), ("ring", 7, 3), ("star", 6, 5), ("hypercube", 8, 3)])
def test_no_more_matchings_than_needed(base: str, n: int, count: int) -> None:
    assert len(matchings(static(base, n))) == count


@each_base
@each_budget
def test_a_round_uses_some_matchings_with_one_step(base: str, n: int, budget: float) -> None:
    partners, p, step, _ = plan(base, n, budget)
    laplacians = np.array([laplacian(partner) for partner in partners])
    made = matcha(n, base=base, budget=budget, seed=3)
    allowed = edges(dense(static(base, n)))
    for t in range(15):
        W = dense(made(t))
        assert not (edges(W) & ~allowed).any()
        used = np.array([bool(edges(W)[np.arange(n), partner].any()) for partner in partners])
        np.testing.assert_allclose(W, np.eye(n) - step * laplacians[used].sum(axis=0), atol=1e-12)
        assert (W >= 0).all()
        assert not used[p == 0].any()
        assert used[p == 1].all()


@each_base
@each_budget
def test_probabilities_stay_within_the_budget_and_spend_it(base: str, n: int, budget: float) -> None:
    _, p, step, _ = plan(base, n, budget)
    assert ((p >= 0) & (p <= 1)).all()
    assert p.sum() == pytest.approx(budget * len(p), abs=1e-8)
    assert step > 0


@pytest.mark.parametrize(
    ("base", "n"), [("ring", 5), ("ring", 7), ("binary_tree", 7), ("binary_tree", 15), ("star", 4)]
)
@each_budget
def test_no_probabilities_of_a_grid_connect_better(base: str, n: int, budget: float) -> None:
    partners, p, _, _ = plan(base, n, budget)
    laplacians = np.array([laplacian(partner) for partner in partners])
    assert len(p) == 3
    total = budget * len(p)
    ticks = np.linspace(0, 1, 41)
    grid = [(a, b, total - a - b) for a in ticks for b in ticks if 0 <= total - a - b <= 1]
    best = max(connectivity(laplacians, np.array(point)) for point in grid)
    found = connectivity(laplacians, p)
    assert best * (1 - 1e-6) <= found <= best * 1.05


@pytest.mark.parametrize(("base", "n"), [*BASES[:2], *BASES[3:5], *BASES[-2:]])
@each_budget
def test_no_small_change_of_the_probabilities_connects_better(base: str, n: int, budget: float) -> None:
    """lambda_2 is concave in p: what no exchange between two matchings improves locally is nearly the best."""
    partners, p, _, _ = plan(base, n, budget)
    laplacians = np.array([laplacian(partner) for partner in partners])
    found = connectivity(laplacians, p)
    generator = np.random.default_rng(0)
    for _ in range(200):
        change = generator.standard_normal(len(p)) * 0.02
        other = np.clip(p + change - change.mean(), 0, 1)
        if other.sum() <= budget * len(p):
            assert connectivity(laplacians, other) <= found * (1 + 1e-6)


@pytest.mark.parametrize(("base", "n"), [("ring", 8), ("star", 6), ("hypercube", 8), ("complete", 4)])
@each_budget
def test_matchings_that_can_be_exchanged_are_equally_likely(base: str, n: int, budget: float) -> None:
    np.testing.assert_allclose(plan(base, n, budget)[1], budget, atol=1e-8)


@each_base
@each_budget
def test_no_other_step_mixes_faster(base: str, n: int, budget: float) -> None:
    partners, p, step, second = plan(base, n, budget)
    laplacians = np.array([laplacian(partner) for partner in partners])
    assert second == pytest.approx(second_eigenvalue(laplacians, p, step), abs=1e-9)
    largest = 1 / edges(dense(static(base, n))).sum(axis=0).max()
    assert step <= largest
    for other in np.linspace(0.05, 1, 20) * largest:
        assert second <= second_eigenvalue(laplacians, p, float(other)) + 1e-9


@each_base
def test_a_full_budget_uses_the_whole_graph_in_every_round(base: str, n: int) -> None:
    made, topology = matcha(n, base=base, budget=1), static(base, n)
    adjacency = edges(dense(topology)).astype(float)
    step = plan(base, n, 1.0)[2]
    expected = np.eye(n) - step * (np.diag(adjacency.sum(axis=0)) - adjacency)
    for t in range(5):
        np.testing.assert_allclose(dense(made(t)), expected, atol=1e-12)
    assert made.degree == adjacency.sum(axis=0).max()


def test_matchings_are_used_as_often_as_planned_and_independently() -> None:
    n, rounds = 15, 2000
    partners, p, _, _ = plan("binary_tree", n, 0.4)
    ends = [int(np.flatnonzero(partner != np.arange(n))[0]) for partner in partners]
    made = matcha(n, base="binary_tree", budget=0.4, seed=6)
    rows = [[made(t).row(end).sources for end in ends] for t in range(rounds)]
    used = np.array([[partners[j, end] in row[j] for j, end in enumerate(ends)] for row in rows], dtype=float)
    assert (np.abs(used.mean(axis=0) - p) < 4 * np.sqrt(p * (1 - p) / rounds)).all()
    correlations = np.corrcoef(np.concatenate([used[1:], used[:-1]], axis=1).T) - np.eye(2 * len(p))
    assert np.abs(correlations).max() < 4 / np.sqrt(rounds)


def test_the_seed_changes_the_rounds_and_not_the_plan() -> None:
    one, other = (matcha(8, seed=seed) for seed in (1, 2))
    assert one.second_moment == other.second_moment
    assert any((dense(one(t)) != dense(other(t))).any() for t in range(20))


def test_a_base_graph_with_options() -> None:
    made = schedule("matcha:base=torus:shape=2x4,budget=0.7", 8)
    allowed = edges(dense(torus(8, shape="2x4")))
    assert made.name == "matcha:base=torus:shape=2x4,budget=0.7,seed=0"
    union = np.any([edges(dense(made(t))) for t in range(30)], axis=0)
    np.testing.assert_array_equal(union, allowed)


@pytest.mark.parametrize("n", [1, 2])
def test_few_replicas(n: int) -> None:
    made = matcha(n, budget=1)
    np.testing.assert_allclose(dense(made(0)), np.full((n, n), 1 / n), atol=1e-8)
    assert made.degree == n - 1
    assert made.second_moment == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"budget": 0}, "got budget = 0, expected a fraction above 0, at most 1"),
        ({"budget": -0.5}, r"got budget = -0\.5, expected a fraction"),
        ({"budget": 1.01}, r"got budget = 1\.01, expected a fraction"),
        ({"budget": float("nan")}, "got budget = nan, expected a fraction"),
        ({"budget": "much"}, "got budget = 'much', expected a fraction"),
        ({"budget": True}, "got budget = True, expected a fraction"),
        ({"base": "rign"}, "unknown graph 'rign': .*did you mean 'ring'"),
        ({"base": "random_ring"}, "graph 'random_ring' changes from round to round: expected one that stays the same"),
        ({"base": "ring_lattice:k=3"}, "got k = 3"),
        ({"n": 2001}, "got 2001 replicas, expected at most 2000: it solves dense problems"),
    ],
)
def test_mistakes_are_told(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        matcha(**{"n": 8, **options})


@pytest.mark.parametrize("base", ["exponential", "ring:directed=true"])
def test_a_directed_base_is_refused_as_a_base_and_not_as_a_rule_for_weights(base: str) -> None:
    with pytest.raises(ValueError, match=f"'{base}' is directed: replica 0 hears") as caught:
        matcha(8, base=base)
    assert "matcha" in str(caught.value)
    assert "weights 'matcha'" not in str(caught.value)
    assert "use uniform" not in str(caught.value)
