"""The second moment of random schedules: closed forms, exact enumeration, and Monte Carlo with its error."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from hvd_gossip.graphs import (
    Cayley,
    MatrixTopology,
    Relabelled,
    Topology,
    Varying,
    complete,
    exponential,
    matcha,
    od_equidyn,
    ou_equidyn,
    random_matching,
    random_ring,
    ring,
    schedule,
    spectral,
    star,
)
from hvd_gossip.graphs.equitopo import matching_of_shift
from hvd_gossip.graphs.relabelled import relabelled
from hvd_gossip.graphs.spectral import second_moment

# Gaps of the ring relabelled in each round, and of the fixed one, as the literature's notes print them.
RANDOM_RING = {16: "0.7111", 32: "0.6882", 64: "0.6772", 128: "0.6719"}
FIXED_RING = {16: "0.0989", 32: "0.0255", 64: "0.0064", 128: "0.0016"}


def second_eigenvalue(matrices: Iterable[np.ndarray]) -> float:
    """Of the mean of W^T W, on what is orthogonal to 1."""
    squares = [W.T @ W for W in matrices]
    n = len(squares[0])
    centre = np.eye(n) - 1 / n
    return float(np.linalg.eigvalsh(centre @ (sum(squares) / len(squares)) @ centre).max())


def all_relabellings(base: Topology) -> list[np.ndarray]:
    orders = itertools.permutations(range(base.n))
    return [Relabelled("own", base, np.array(order)).matrix().toarray() for order in orders]


def estimated(made: Any, samples: int = 400) -> spectral.Estimate:
    """By Monte Carlo, as if no closed form were known."""
    return second_moment(Varying(made.name, made.n, made, random=True), samples)


def pairs(n: int) -> Topology:
    """The base of random pairs."""
    W = np.eye(n)
    for i in range(0, n - 1, 2):
        W[i : i + 2, i : i + 2] = 0.5
    return MatrixTopology("pairs", W)


@pytest.mark.parametrize("n", RANDOM_RING)
def test_gaps_of_rings_relabelled_and_fixed(n: int) -> None:
    assert f"{1 - second_moment(random_ring(n)).value:.4f}" == RANDOM_RING[n]
    assert f"{1 - spectral.second_modulus(ring(n)) ** 2:.4f}" == FIXED_RING[n]


@pytest.mark.parametrize("n", range(3, 60))
def test_closed_form_of_the_random_ring(n: int) -> None:
    assert second_moment(random_ring(n)) == (pytest.approx((n - 3) / (3 * (n - 1)), abs=1e-12), 0)


@pytest.mark.parametrize("n", range(2, 60, 2))
def test_closed_form_of_random_pairs(n: int) -> None:
    assert second_moment(random_matching(n)) == (pytest.approx((n - 2) / (2 * (n - 1)), abs=1e-12), 0)


@pytest.mark.parametrize("n", range(1, 6))
def test_all_rings_and_all_pairs_of_few_replicas(n: int) -> None:
    assert second_moment(random_ring(n)).value == pytest.approx(second_eigenvalue(all_relabellings(ring(n))), abs=1e-12)
    found = second_moment(random_matching(n)).value
    assert found == pytest.approx(second_eigenvalue(all_relabellings(pairs(n))), abs=1e-12)


@pytest.mark.parametrize("base", [ring(5, directed=True), exponential(5), star(5), star(4), complete(4)])
def test_all_relabellings_of_any_doubly_stochastic_graph(base: Topology) -> None:
    found = second_moment(relabelled("own", base, seed=0)).value
    assert found == pytest.approx(second_eigenvalue(all_relabellings(base)), abs=1e-12)


@pytest.mark.parametrize("n", range(2, 20))
@pytest.mark.parametrize("eta", [0.2, 0.53, 1.0])
def test_all_shifts_of_od_equidyn(n: int, eta: float) -> None:
    weight = eta * (n - 1) / n
    matrices = [Cayley("own", (n,), {(a,): weight}).matrix().toarray() for a in range(1, n)]
    assert second_moment(od_equidyn(n, eta=eta)).value == pytest.approx(second_eigenvalue(matrices), abs=1e-12)


@pytest.mark.parametrize(("base", "n"), [("ring", 7), ("binary_tree", 9), ("star", 5), ("complete", 5)])
def test_all_subsets_of_the_matchings_of_matcha(base: str, n: int) -> None:
    """Drawn rounds tell W of each subset, the plan its probability."""
    from hvd_gossip.graphs.matcha import laplacian, plan

    partners, p, step, _ = plan(base, n, 0.5)
    laplacians = np.array([laplacian(partner) for partner in partners])
    square = np.zeros((n, n))
    for used in itertools.product((False, True), repeat=len(p)):
        W = np.eye(n) - step * laplacians[list(used)].sum(axis=0)
        square += np.prod(np.where(used, p, 1 - p)) * W @ W
    expected = np.sort(np.linalg.eigvalsh(square))[-2]
    assert second_moment(matcha(n, base=base, budget=0.5)).value == pytest.approx(expected, abs=1e-9)


CLOSED = [
    random_ring(8, seed=1),
    random_ring(25, seed=2),
    random_matching(8, seed=1),
    random_matching(15, seed=1),
    od_equidyn(8, seed=1),
    od_equidyn(15, eta=0.9, seed=2),
    matcha(8, seed=1),
    matcha(15, base="binary_tree", budget=0.3, seed=1),
    matcha(12, base="torus", budget=0.6, seed=4),
]


@pytest.mark.parametrize("made", CLOSED, ids=lambda made: f"{made.name} {made.n}")
def test_monte_carlo_comes_to_the_closed_form(made: Varying) -> None:
    found, known = estimated(made), second_moment(made)
    assert known.error == 0
    assert abs(found.value - known.value) <= 4 * found.error + 1e-9
    assert found.error < 0.05


@pytest.mark.parametrize("n", [5, 8, 12])
def test_closed_form_and_monte_carlo_come_to_all_shifts_and_starts_of_ou_equidyn(n: int) -> None:
    weight = 0.53 * (n - 1) / n
    choices = itertools.product(range(1, n), range(n))
    exact = second_eigenvalue(matching_of_shift("own", n, a, s, weight).matrix().toarray() for a, s in choices)
    assert second_moment(ou_equidyn(n, seed=1)).value == pytest.approx(exact, abs=1e-12)
    found = estimated(ou_equidyn(n, seed=1))
    assert 0 < found.error < 0.05
    assert abs(found.value - exact) <= 4 * found.error


def test_the_error_falls_with_the_square_root_of_the_sample() -> None:
    small, large = (estimated(random_matching(12, seed=3), samples) for samples in (200, 1800))
    assert small.error / large.error == pytest.approx(3, rel=0.2)


def test_an_estimate_is_the_same_when_asked_twice() -> None:
    assert estimated(random_matching(9)) == estimated(random_matching(9))


@pytest.mark.parametrize("made", [random_ring(40, seed=2), matcha(40, budget=0.4, seed=2)], ids=["ring", "matcha"])
def test_a_sparse_eigensolver_finds_the_same_direction(made: Varying, monkeypatch: pytest.MonkeyPatch) -> None:
    dense = estimated(made, samples=60)
    monkeypatch.setattr(spectral, "DENSE", 1)
    assert estimated(made, samples=60) == pytest.approx(dense, abs=1e-6)


def test_a_rule_for_weights_leaves_no_closed_form_of_other_weights() -> None:
    made = schedule("random_ring:weights=lazy", 8)
    found = second_moment(made)
    lazy = MatrixTopology("lazy", (np.eye(8) + ring(8).matrix().toarray()) / 2)
    exact = (np.square(lazy.matrix().toarray()).sum() - 1) / 7
    assert found.error > 0
    assert abs(found.value - exact) <= 4 * found.error


def test_one_replica_has_nothing_to_agree_on() -> None:
    for factory in (random_ring, random_matching, od_equidyn, ou_equidyn, matcha):
        assert second_moment(factory(1)) == (0, 0)


def test_two_replicas_that_always_average_agree_at_once() -> None:
    assert second_moment(random_ring(2)).value == pytest.approx(0, abs=1e-15)
    assert estimated(random_matching(2)).value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("samples", [0, 1, 2, 3])
def test_too_few_samples_are_refused_or_enough(samples: int) -> None:
    """Both halves need a round, and an error needs two values: never a crash, never a number that is none."""
    try:
        found = estimated(random_matching(6), samples)
    except ValueError as error:
        assert "samples" in str(error)
    else:
        assert np.isfinite(found).all()
