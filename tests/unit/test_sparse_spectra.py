"""Sparse eigensolvers, made to run on graphs that are small enough for dense ones to check them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse import linalg

from hvd_gossip.graphs import (
    MatrixTopology,
    Topology,
    Varying,
    alternating,
    base_k,
    eigensolvers,
    exponential,
    one_peer_exponential,
    ring,
    schedule,
    spectral,
    star,
)
from hvd_gossip.graphs.registry import static

STATIC = [
    ("binary_tree", 63),
    ("binary_tree", 200),
    ("random_regular:d=3,seed=1", 200),
    ("random_regular:d=6", 151),
    ("erdos_renyi:seed=2", 180),
    ("watts_strogatz:k=4,seed=1", 150),
    ("margulis", 225),
    ("star", 150),
    ("star:weights=lazy", 100),
    ("hierarchical", 196),
    ("hierarchical:groups=49", 196),
    ("hierarchical:groups=49,outer=ring:directed=true", 196),
    ("hierarchical:groups=20,outer=exponential", 100),
    ("ring", 300),
    ("ring_lattice:k=10", 201),
    ("torus", 150),
    ("hypercube", 128),
    ("complete", 80),
    ("ring:directed=true", 101),
    ("exponential", 150),
    ("exponential:base=3", 90),
    ("d_equistatic:seed=1", 150),
    ("u_equistatic:seed=1", 150),
    ("star:weights=uniform", 100),
    ("binary_tree:weights=uniform", 127),
    ("binary_tree:weights=max_degree", 100),
]


@pytest.fixture
def sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dense eigenvalues are out of reach."""
    for module in (spectral, eigensolvers):
        monkeypatch.setattr(module, "DENSE", 1)


def reference(matrix: np.ndarray) -> float:
    """The second largest modulus of an eigenvalue."""
    return float(np.abs(np.linalg.eigvals(matrix - 1 / len(matrix))).max())


def plain(text: str, n: int) -> Topology:
    """W alone, without what is known of its structure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MatrixTopology(text, static(text, n).matrix())


def directed(n: int, seed: int) -> np.ndarray:
    """Row-stochastic, sparse, not symmetric, each replica with a self-weight and a way to every other."""
    generator = np.random.default_rng(seed)
    weights = generator.random((n, n)) * (generator.random((n, n)) < 4 / n)
    weights += 0.1 * np.eye(n) + 0.1 * np.roll(np.eye(n), 1, axis=1)
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("text", "n"), STATIC)
@pytest.mark.usefixtures("sparse")
def test_sparse_eigenvalues_are_the_dense_ones(text: str, n: int) -> None:
    topology = plain(text, n)
    assert spectral.second_modulus(topology) == pytest.approx(reference(topology.matrix().toarray()), abs=1e-8)


@pytest.mark.parametrize("n", [60, 200])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.usefixtures("sparse")
def test_sparse_eigenvalues_of_directed_graphs(n: int, seed: int) -> None:
    W = directed(n, seed)
    assert spectral.second_modulus(MatrixTopology("own", W)) == pytest.approx(reference(W), abs=1e-8)


@pytest.mark.usefixtures("sparse")
def test_a_second_eigenvalue_near_minus_one_is_found() -> None:
    """Nearly two sides that hear only each other, symmetric and not."""
    n = 100
    right = np.roll(np.eye(n), 1, axis=1)
    for share in (0.5, 0.4):
        W = 0.0001 * np.eye(n) + 0.9999 * (share * right + (1 - share) * right.T)
        assert spectral.second_modulus(MatrixTopology("own", W)) == pytest.approx(0.9998, abs=1e-8)


@pytest.mark.parametrize("parts", [2, 3, 7])
@pytest.mark.parametrize("kind", ["ring", "complete", "exponential", "binary_tree"])
@pytest.mark.usefixtures("sparse")
def test_groups_that_never_meet_have_no_gap(parts: int, kind: str) -> None:
    """The eigenvalue 1 stands several times, which a Krylov space of one start does not show by itself."""
    W = sp.block_diag([static(kind, 40).matrix()] * parts).tocsr()
    assert spectral.spectral_gap(MatrixTopology("own", W)) == pytest.approx(0, abs=1e-9)


@pytest.mark.usefixtures("sparse")
def test_what_comes_round_for_ever_has_no_gap() -> None:
    cycle = np.roll(np.eye(90), 1, axis=1)
    pairs = np.kron(np.eye(45), [[0, 1], [1, 0]])
    assert spectral.spectral_gap(MatrixTopology("cycle", cycle)) == pytest.approx(0, abs=1e-9)
    assert spectral.spectral_gap(MatrixTopology("pairs", pairs)) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("text", "n"), STATIC)
@pytest.mark.usefixtures("sparse")
def test_sparse_contraction_is_the_dense_norm(text: str, n: int) -> None:
    topology = plain(text, n)
    expected = np.linalg.norm(topology.matrix().toarray() - 1 / n, 2)
    assert spectral.contraction(topology) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.usefixtures("sparse")
def test_sparse_contraction_of_directed_graphs(seed: int) -> None:
    W = directed(120, seed)
    found = spectral.contraction(MatrixTopology("own", W))
    assert found == pytest.approx(np.linalg.norm(W - 1 / 120, 2), abs=1e-8)


def whole_period(made: Any) -> np.ndarray:
    """W(T - 1) … W(0)."""
    product = np.eye(made.n)
    for t in range(made.period):
        product = made(t).matrix() @ product
    return product


def random_period(n: int) -> Varying:
    rounds = [MatrixTopology(f"own {seed}", directed(n, seed)) for seed in range(3)]
    return Varying("own", n, lambda round, epoch: rounds[round], period=3)


PERIODS = [
    alternating(60, groups=12, outer="ring"),
    alternating(64),
    alternating(48, groups=24, outer="exponential"),
    one_peer_exponential(60),
    schedule("one_peer_exponential:weights=lazy", 48),
    schedule("base_k:k=2,weights=lazy", 54),
    schedule("hyper_hypercube:weights=lazy", 60),
    schedule("periodic:every=3,graph=ring", 50),
    base_k(54, k=2),
    random_period(60),
]
each_period = pytest.mark.parametrize("made", PERIODS, ids=lambda made: made.name)


@each_period
def test_the_factor_of_a_period_is_that_of_the_product(made: Any) -> None:
    expected = reference(whole_period(made))
    assert spectral.period_factor(made) == pytest.approx(expected if expected > 1e-6 else 0, abs=1e-9)


@each_period
@pytest.mark.usefixtures("sparse")
def test_the_factor_of_a_period_by_sparse_eigensolvers(made: Any) -> None:
    expected = reference(whole_period(made))
    assert spectral.period_factor(made) == pytest.approx(expected if expected > 1e-6 else 0, abs=1e-7)


def test_the_factor_of_a_period_of_one_round_is_that_of_the_graph() -> None:
    made = schedule("exponential", 20)
    assert spectral.period_factor(made) == spectral.second_modulus(exponential(20))


def test_the_order_of_rounds_changes_no_factor() -> None:
    """A product and the same one begun at a later round have equal eigenvalues."""
    made = random_period(30)
    later = Varying("later", 30, lambda round, epoch: made(round + 1), period=3)
    assert spectral.period_factor(later) == pytest.approx(spectral.period_factor(made), abs=1e-9)


def test_what_has_no_period_has_no_factor_of_it() -> None:
    with pytest.raises(ValueError, match="graph 'random_ring:seed=0' has no period: see second_moment"):
        spectral.period_factor(schedule("random_ring", 8))


@pytest.mark.parametrize("topology", [star(2000), MatrixTopology("own", ring(1600).matrix())], ids=["star", "ring"])
def test_large_graphs_need_no_dense_matrix(topology: Topology, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np.linalg, "eigvalsh", None)
    monkeypatch.setattr(np.linalg, "eigvals", None)
    n = topology.n
    expected = 1 / n if topology.name == "star" else 2 / 3 * (1 - np.cos(2 * np.pi / n))
    assert spectral.spectral_gap(topology) == pytest.approx(expected, abs=1e-11)


def test_a_solver_that_does_not_converge_is_told_with_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    def stalls(*arguments: Any, **options: Any) -> None:
        raise linalg.ArpackNoConvergence("No convergence", np.zeros(0), np.zeros((0, 0)))

    made, own = random_period(40), MatrixTopology("own", directed(40, 0))
    for module in (spectral, eigensolvers):
        monkeypatch.setattr(module, "DENSE", 1)
    for name in ("eigs", "eigsh", "svds"):
        monkeypatch.setattr(linalg, name, stalls)
    for call in (lambda: spectral.spectral_gap(own), lambda: spectral.period_factor(made)):
        with pytest.raises(ValueError, match=r"graph 'own': .* did not converge"):
            call()
