"""Spectral gaps against closed forms, printed tables and dense eigenvalues, for directed and reducible graphs too."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from hvd_gossip.graphs import (
    Circulant,
    MatrixTopology,
    Topology,
    binary_tree,
    complete,
    exponential,
    hypercube,
    random_ring,
    ring,
    ring_lattice,
    star,
    torus,
)
from hvd_gossip.graphs.registry import static
from hvd_gossip.graphs.spectral import contraction, second_modulus, spectral_gap

# Gaps as printed in the literature's tables and in ours: n -> ring, torus, static exponential.
TABLE = {
    8: ("0.19526", "0.4000", "0.5000"),
    12: ("0.08932", "0.4000", "0.4000"),
    16: ("0.05075", "0.4000", "0.4000"),
    24: ("0.02272", "0.2000", "0.3333"),
    48: ("0.00570", "0.1172", "0.2857"),
    96: ("0.00143", "0.0536", "0.2500"),
    128: ("0.00080", "0.0304", "0.2500"),
}
LATTICES = {2: "0.0014", 4: "0.0043", 8: "0.0142", 16: "0.0506", 32: "0.1832", 48: "0.3766", 94: "0.9895"}


def any_size(n: int) -> bool:
    return True


# Short forms, and which numbers of replicas they fit.
FORMS: dict[str, Callable[[int], bool]] = {
    "ring": any_size,
    "ring:directed=true": any_size,
    "ring:weights=lazy": any_size,
    "ring_lattice:k=4": lambda n: n > 4,
    "torus": lambda n: n == 1 or any(n % p == 0 for p in range(2, n)),
    "torus:dimensions=3": lambda n: n in (1, 8, 12, 18, 24, 27, 36),
    "hypercube": lambda n: n & (n - 1) == 0,
    "exponential": any_size,
    "exponential:base=3": any_size,
    "exponential:weights=1/n": any_size,
    "symmetric_exponential": any_size,
    "complete": any_size,
    "star": any_size,
    "star:weights=uniform": any_size,
    "binary_tree": any_size,
    "binary_tree:weights=uniform": any_size,
    "margulis": lambda n: math.isqrt(n) ** 2 == n,
    "d_equistatic": any_size,
    "u_equistatic": any_size,
    "hierarchical": any_size,
    "hierarchical:outer=exponential": any_size,
    "random_regular:d=3": lambda n: n > 3 and n % 2 == 0,
    "erdos_renyi:p=0.6": any_size,
    "watts_strogatz:k=4,p=0.3": lambda n: n > 4,
}


def quietly(text: str, n: int) -> Topology:
    """The graph of a short form, without the warning where its W is not doubly stochastic."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return static(text, n)


def reference(topology: Topology) -> float:
    """The largest modulus of an eigenvalue of W - 11^T/n: those of W, but for one 1 that is turned into 0."""
    return float(np.abs(np.linalg.eigvals(topology.matrix().toarray() - 1 / topology.n)).max())


def random_stochastic(n: int, seed: int) -> np.ndarray:
    weights = np.random.default_rng(seed).random((n, n)) ** 3
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n", TABLE)
def test_gaps_of_the_table(n: int) -> None:
    shown = (f"{spectral_gap(ring(n)):.5f}", f"{spectral_gap(torus(n)):.4f}", f"{spectral_gap(exponential(n)):.4f}")
    assert shown == TABLE[n]


@pytest.mark.parametrize("k", LATTICES)
def test_gaps_of_ring_lattices_of_ninety_six(k: int) -> None:
    assert f"{spectral_gap(ring_lattice(96, k)):.4f}" == LATTICES[k]


@pytest.mark.parametrize("n", range(3, 41))
def test_closed_forms(n: int) -> None:
    closed = {
        ring(n): 2 / 3 * (1 - math.cos(2 * math.pi / n)),
        ring(n, directed=True): 1 - math.cos(math.pi / n),
        complete(n): 1,
        star(n): 1 / n,
    }
    for topology, gap in closed.items():
        assert spectral_gap(topology) == pytest.approx(gap, abs=1e-12), topology


@pytest.mark.parametrize("dimension", range(2, 8))
def test_closed_form_of_the_hypercube(dimension: int) -> None:
    assert spectral_gap(hypercube(2**dimension)) == pytest.approx(2 / (dimension + 1), abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(shape=st.lists(st.integers(2, 7), min_size=1, max_size=4))
def test_closed_form_of_the_torus(shape: list[int]) -> None:
    frequencies = np.meshgrid(*(np.arange(length) / length for length in shape), indexing="ij")
    values = (1 + sum(2 * np.cos(2 * np.pi * part) for part in frequencies)) / (2 * len(shape) + 1)
    found = spectral_gap(torus(math.prod(shape), shape=tuple(shape)))
    assert found == pytest.approx(1 - np.sort(np.abs(values), axis=None)[-2], abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(n=st.integers(4, 120), half=st.integers(1, 40))
def test_closed_form_of_the_ring_lattice(n: int, half: int) -> None:
    k = 2 * min(half, (n - 1) // 2)
    angles = 2 * np.pi * np.arange(1, n)[:, None] * np.arange(1, k // 2 + 1) / n
    values = np.abs(1 + 2 * np.cos(angles).sum(axis=1)) / (k + 1)
    assert spectral_gap(ring_lattice(n, k)) == pytest.approx(1 - values.max(), abs=1e-12)


@pytest.mark.parametrize("text", FORMS)
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_every_static_graph_has_the_gap_of_its_dense_eigenvalues(text: str, data: Any) -> None:
    n = data.draw(st.sampled_from([n for n in range(1, 41) if FORMS[text](n)]))
    topology = quietly(text, n)
    assert spectral_gap(topology) == pytest.approx(1 - reference(topology), abs=1e-9)
    # The same W without what is known of its structure.
    assert spectral_gap(MatrixTopology("own", topology.matrix())) == pytest.approx(1 - reference(topology), abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(n=st.integers(2, 20), seed=st.integers(0, 10**6))
def test_gaps_of_directed_graphs_whose_columns_do_not_sum_to_one(n: int, seed: int) -> None:
    topology = MatrixTopology("own", random_stochastic(n, seed))
    assert spectral_gap(topology) == pytest.approx(1 - reference(topology), abs=1e-9)


def test_the_modulus_counts_and_not_the_largest_value() -> None:
    """Eigenvalues 1, -0.8 and 0: the second largest value would tell a gap of 1."""
    W = np.array([[0.1, 0.9, 0], [0.45, 0.1, 0.45], [0, 0.9, 0.1]])
    assert spectral_gap(MatrixTopology("own", W)) == pytest.approx(0.2, abs=1e-12)


def test_complex_eigenvalues_count_by_their_modulus() -> None:
    W = np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])
    assert spectral_gap(MatrixTopology("own", W)) == pytest.approx(0.5, abs=1e-12)


@settings(deadline=None, max_examples=30)
@given(sizes=st.lists(st.integers(1, 6), min_size=2, max_size=4), seed=st.integers(0, 10**6))
def test_groups_that_never_meet_have_no_gap(sizes: list[int], seed: int) -> None:
    W = sp.block_diag([random_stochastic(size, seed + size) for size in sizes]).toarray()
    order = np.random.default_rng(seed).permutation(len(W))
    assert spectral_gap(MatrixTopology("own", W[np.ix_(order, order)])) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("n", [2, 3, 8, 25])
def test_replicas_that_only_pass_on_have_no_gap(n: int) -> None:
    """A cycle without self-weights, and two sides that hear only each other, come round for ever."""
    cycle = np.roll(np.eye(n), 1, axis=1)
    sides = np.kron([[0, 1], [1, 0]], random_stochastic(n, 0))
    assert spectral_gap(MatrixTopology("cycle", cycle)) == pytest.approx(0, abs=1e-12)
    assert spectral_gap(MatrixTopology("sides", sides)) == pytest.approx(0, abs=1e-12)


def test_one_leader_whom_all_follow_has_a_gap() -> None:
    """Reducible, yet all come to one value: eigenvalues 1 and 0.75."""
    W = np.array([[1, 0, 0], [0.25, 0.75, 0], [0.5, 0, 0.5]])
    assert spectral_gap(MatrixTopology("own", W)) == pytest.approx(0.25, abs=1e-12)


@settings(deadline=None, max_examples=30)
@given(n=st.integers(2, 25), seed=st.integers(0, 10**6))
def test_exchanging_ranks_changes_no_gap(n: int, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(n)
    for topology in (binary_tree(n), MatrixTopology("own", random_stochastic(n, seed))):
        W = topology.matrix().toarray()
        assert spectral_gap(MatrixTopology("own", W[np.ix_(order, order)])) == pytest.approx(spectral_gap(topology))
    assert spectral_gap(random_ring(n, seed)(3)) == pytest.approx(spectral_gap(ring(n)))


@settings(deadline=None, max_examples=30)
@given(n=st.integers(1, 40), shifts=st.lists(st.integers(-40, 40), max_size=4))
def test_circulants_by_fourier_transform(n: int, shifts: list[int]) -> None:
    topology = Circulant("own", n, shifts)
    gap = spectral_gap(topology)
    assert gap == pytest.approx(1 - reference(topology), abs=1e-9)
    assert (gap > 1e-9) == (math.gcd(n, *shifts) == 1)


@pytest.mark.parametrize("n", [1_000_000, 1_048_576, 999_983])
def test_a_million_replicas_on_a_ring(n: int) -> None:
    assert spectral_gap(ring(n)) == pytest.approx(2 / 3 * (1 - math.cos(2 * math.pi / n)), abs=1e-14)


@pytest.mark.parametrize("text", FORMS)
def test_one_replica_agrees_with_itself(text: str) -> None:
    if FORMS[text](1):
        assert (spectral_gap(quietly(text, 1)), contraction(quietly(text, 1))) == (1, 0)


@pytest.mark.parametrize("text", FORMS)
@pytest.mark.parametrize("n", [2, 12, 16, 36])
def test_contraction_is_the_norm_of_the_deviation(text: str, n: int) -> None:
    if not FORMS[text](n):
        return
    topology = quietly(text, n)
    W = topology.matrix().toarray()
    assert contraction(topology) == pytest.approx(np.linalg.norm(W - 1 / n, 2), abs=1e-10)
    assert contraction(topology) >= second_modulus(topology) - 1e-9
    if np.abs(W @ W.T - W.T @ W).max() < 1e-12:
        assert contraction(topology) == pytest.approx(second_modulus(topology), abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(n=st.integers(1, 20), seed=st.integers(0, 10**6))
def test_contraction_of_graphs_that_are_not_normal(n: int, seed: int) -> None:
    W = random_stochastic(n, seed)
    found = contraction(MatrixTopology("own", W))
    assert found == pytest.approx(np.linalg.norm(W - 1 / n, 2), abs=1e-10)


def test_a_round_can_take_replicas_further_apart() -> None:
    """All take over what replica 0 has: the mean moves, and the norm is above 1."""
    W = np.zeros((4, 4))
    W[:, 0] = 1
    topology = MatrixTopology("own", W)
    assert contraction(topology) == pytest.approx(math.sqrt(3))
    assert spectral_gap(topology) == 1


@pytest.mark.parametrize("n", [3, 40, 200, 2_000])
def test_a_directed_path_has_the_eigenvalues_of_its_diagonal(n: int) -> None:
    """All but one are 1/2, of one eigenvector: as a whole the matrix would have them rounded far away."""
    matrix = sp.lil_array((n, n))
    matrix.setdiag(0.5)
    matrix.setdiag(0.5, k=-1)
    matrix[0, 0] = 1.0
    assert spectral_gap(MatrixTopology("path", matrix)) == 0.5


@pytest.mark.parametrize("n", [4, 60, 900])
def test_groups_that_hear_one_way_have_the_eigenvalues_of_each(n: int) -> None:
    """A ring that hears nobody else, and a directed ring of which one replica hears it."""
    near, far = ring(n).matrix(), ring(n, directed=True).matrix()
    joint = sp.lil_array((n, n))
    joint[0, 0] = 0.25
    scale = sp.diags_array(np.where(np.arange(n) == 0, 0.75, 1.0))
    whole = sp.block_array([[near, None], [joint, scale @ far]])
    others = np.linalg.eigvals((scale @ far).toarray())
    expected = max(second_modulus(ring(n)), float(np.abs(others).max()))
    assert 1 - spectral_gap(MatrixTopology("two", whole)) == pytest.approx(expected, abs=1e-8)
