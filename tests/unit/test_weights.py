"""Rules for weights against a dense reference, and what replicas drift to where the mean is not kept."""

from __future__ import annotations

import re
import sys
import warnings

import numpy as np
import pytest
from forms import STATIC, cases
from hypothesis import given, settings, strategies as st

from hvd_gossip.graphs import (
    Cayley,
    MatrixTopology,
    Topology,
    binary_tree,
    complete,
    exponential,
    limit_weights,
    reweight,
    ring,
    schedule,
    star,
)
from hvd_gossip.graphs.limits import closed_classes, require_agreement
from hvd_gossip.graphs.spectral import spectral_gap

SYMMETRIC = {form: fits for form, fits in STATIC.items() if not re.match("ring:d|exponential|d_equi|.*outer=exp", form)}


def dense(topology: Topology) -> np.ndarray:
    return topology.matrix().toarray()


def quietly(topology: Topology, rule: str) -> Topology:
    """Reweighted, whatever happens to the mean."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return reweight(topology, rule)


def reference(own: np.ndarray, rule: str) -> np.ndarray:
    """The rule, entry by entry."""
    n = len(own)
    edge = (own > 0) & ~np.eye(n, dtype=bool)
    hears, heard_by = edge.sum(axis=1), edge.sum(axis=0)
    made = np.zeros((n, n))
    for i, j in np.argwhere(edge):
        made[i, j] = {
            "uniform": 1 / (1 + hears[i]),
            "metropolis": 1 / (1 + max(hears[i], hears[j])),
            "max_degree": 1 / (1 + max(hears.max(), heard_by.max())),
            "1/n": 1 / n,
            "lazy": own[i, j] / 2,
        }[rule]
    return made + np.diag(1 - made.sum(axis=1))


@pytest.mark.parametrize("rule", ["uniform", "max_degree", "1/n", "lazy"])
@settings(deadline=None)
@given(cases(STATIC, largest=24))
def test_rules_for_any_graph_are_the_dense_ones(rule: str, case: tuple[str, int]) -> None:
    topology = schedule(*case)(0)
    np.testing.assert_allclose(dense(quietly(topology, rule)), reference(dense(topology), rule), atol=1e-12)


@pytest.mark.parametrize("rule", ["uniform", "max_degree", "1/n", "lazy"])
@settings(deadline=None)
@given(st.integers(1, 9), st.integers(0, 10**6))
def test_rules_for_directed_graphs_of_ones_own_are_the_dense_ones(rule: str, n: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    own = draw.random((n, n)) * (draw.random((n, n)) < 0.4) + np.eye(n)
    own /= own.sum(axis=1, keepdims=True)
    made = dense(quietly(MatrixTopology("own", own), rule))
    np.testing.assert_allclose(made, reference(own, rule), atol=1e-12)


@settings(deadline=None)
@given(cases(SYMMETRIC, largest=24))
def test_metropolis_is_symmetric_and_keeps_the_mean_of_every_symmetric_graph(case: tuple[str, int]) -> None:
    topology = schedule(*case)(0)
    made = reweight(topology, "metropolis")
    np.testing.assert_allclose(dense(made), reference(dense(topology), "metropolis"), atol=1e-12)
    assert made.symmetric
    assert made.doubly_stochastic


@settings(deadline=None)
@given(cases(STATIC, largest=24), st.sampled_from(["uniform", "max_degree", "lazy", "1/n"]))
def test_graphs_that_look_the_same_from_every_rank_stay_so(case: tuple[str, int], rule: str) -> None:
    topology = schedule(*case)(0)
    assert isinstance(quietly(topology, rule), Cayley) == isinstance(topology, Cayley)


def test_the_rule_is_an_option_of_every_graph_and_part_of_its_name() -> None:
    assert schedule("ring:weights=lazy", 8).name == "ring:weights=lazy"
    assert schedule("ring_lattice:k=4,weights=1/n", 8).name == "ring_lattice:k=4,weights=1/n"
    rounds = schedule("base_k:k=2,weights=lazy", 12)
    assert (rounds.period, rounds.name) == (3, "base_k:k=2,weights=lazy")
    plain = schedule("base_k:k=2", 12)
    for t in range(5):
        np.testing.assert_allclose(dense(rounds(t)), (dense(plain(t)) + np.eye(12)) / 2)


@pytest.mark.parametrize("rule", ["metropolis", "fastest"])
@pytest.mark.parametrize("form", ["exponential", "ring:directed=true", "d_equistatic"])
def test_a_symmetric_rule_refuses_a_directed_graph_and_names_an_edge(rule: str, form: str) -> None:
    topology = schedule(form, 9)(0)
    with pytest.raises(
        ValueError, match=f"weights '{rule}' need a symmetric graph, but '{form}.*' is directed"
    ) as told:
        reweight(topology, rule)
    i, j = map(int, re.search(r"replica (\d+) hears (\d+), and", str(told.value)).groups())  # type: ignore[union-attr]
    assert dense(topology)[i, j] > 0 == dense(topology)[j, i]


def test_an_unknown_rule_is_told() -> None:
    with pytest.raises(ValueError, match=r"unknown rule for weights 'metropolys': .* did you mean 'metropolis'\?"):
        reweight(ring(4), "metropolys")


@pytest.mark.parametrize(
    ("topology", "edge"), [(complete(6), 1 / 6), (star(3), 0.5), (star(9), 1 / 8), (ring(4), 1 / 3), (ring(6), 0.4)]
)
def test_fastest_finds_the_known_optimum_of_edge_transitive_graphs(topology: Topology, edge: float) -> None:
    """`2/(lambda_2 + lambda_n)` of the Laplacian, unless a replica would give more than it has."""
    pytest.importorskip("cvxpy", reason="cvxpy is not installed: pip install 'hvd_gossip[optimal]'")
    W = dense(reweight(topology, "fastest"))
    np.testing.assert_allclose(W[(W > 0) & ~np.eye(topology.n, dtype=bool)], edge, atol=1e-5)


def test_fastest_of_few_replicas() -> None:
    pytest.importorskip("cvxpy", reason="cvxpy is not installed: pip install 'hvd_gossip[optimal]'")
    np.testing.assert_array_equal(dense(reweight(ring(1), "fastest")), [[1]])
    np.testing.assert_allclose(dense(reweight(ring(2), "fastest")), 0.5, atol=1e-6)


@pytest.mark.parametrize("n", [3, 5, 7, 8, 11])
def test_fastest_ring_is_the_optimum_of_circulants(n: int) -> None:
    """The symmetric ring with weight a has the eigenvalues `1 - 2 a (1 - cos)`: the two ends in balance are best."""
    pytest.importorskip("cvxpy", reason="cvxpy is not installed: pip install 'hvd_gossip[optimal]'")
    cosines = np.cos(2 * np.pi * np.arange(1, n) / n)
    best = min(0.5, 1 / (2 - cosines.max() - cosines.min()))
    norm = np.abs(1 - 2 * best * (1 - cosines)).max()
    assert spectral_gap(reweight(ring(n), "fastest")) == pytest.approx(1 - norm, abs=1e-5)


def test_fastest_is_refused_where_it_would_take_too_long() -> None:
    with pytest.raises(ValueError, match="weights 'fastest' solve a dense program: got 101 replicas, expected at most"):
        reweight(ring(101), "fastest")


def test_fastest_tells_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(ValueError, match=re.escape("weights 'fastest' need cvxpy: pip install 'hvd_gossip[optimal]'")):
        reweight(ring(97), "fastest")


@pytest.mark.parametrize("form", ["binary_tree", "torus", "watts_strogatz:k=4,p=0.3", "star"])
def test_fastest_is_no_slower_than_any_other_rule(form: str) -> None:
    pytest.importorskip("cvxpy", reason="cvxpy is not installed: pip install 'hvd_gossip[optimal]'")
    topology = schedule(form, 12)(0)
    made = reweight(topology, "fastest")
    assert made.doubly_stochastic
    assert (dense(made)[dense(topology) == 0] == 0).all()
    best = max(spectral_gap(reweight(topology, rule)) for rule in ("metropolis", "max_degree", "lazy", "1/n"))
    assert spectral_gap(made) >= best - 1e-6


def test_uniform_weights_on_a_star_are_taken_with_a_warning_that_says_what_happens() -> None:
    with pytest.warns(UserWarning, match="replica 0 counts 0.385 and replica . 0.154 .*metropolis"):
        made = reweight(star(5), "uniform")
    assert not made.doubly_stochastic
    np.testing.assert_allclose(limit_weights(made), np.array([5, 2, 2, 2, 2]) / 13)


@settings(deadline=None)
@given(st.integers(2, 30))
def test_uniform_weights_drift_to_a_mean_weighted_by_degree_plus_one(n: int) -> None:
    made = quietly(binary_tree(n), "uniform")
    expected = 1 + binary_tree(n).degrees()[0]
    np.testing.assert_allclose(limit_weights(made), expected / expected.sum(), atol=1e-12)


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(0, 10**6))
def test_the_limit_is_what_many_rounds_come_to(n: int, seed: int) -> None:
    weights = np.random.default_rng(seed).random((n, n)) + 0.05
    made = MatrixTopology("own", weights / weights.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(
        np.linalg.matrix_power(dense(made), 200), np.tile(limit_weights(made), (n, 1)), atol=1e-10
    )


def test_everybody_may_follow_one_replica() -> None:
    outward = np.diag([1, 0.5, 0.5]) + np.array([[0, 0, 0], [0.5, 0, 0], [0.5, 0, 0]])
    np.testing.assert_allclose(limit_weights(MatrixTopology("outward", outward)), [1, 0, 0], atol=1e-14)


def test_groups_that_never_hear_of_each_other_are_refused() -> None:
    apart = MatrixTopology("apart", np.kron(np.eye(2), np.full((2, 2), 0.5)))
    assert closed_classes(apart) == [0, 2]
    for refuse in (require_agreement, limit_weights, lambda topology: schedule(topology, 4)):
        with pytest.raises(ValueError, match="graph 'apart' is not connected: replicas 0 and 2 never"):
            refuse(apart)


def test_a_matrix_of_ones_own_that_loses_the_mean_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="graph 'own': W is not doubly stochastic"):
        schedule(MatrixTopology("own", [[0.5, 0.5], [0.25, 0.75]]), 2)


def test_doubly_stochastic_graphs_give_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule(MatrixTopology("own", dense(exponential(7))), 7)
        for form, fits in STATIC.items():
            if fits(12):
                schedule(form, 12)
