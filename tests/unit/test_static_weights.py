"""W of every static graph against its formula, written once more and densely, for many n."""

from __future__ import annotations

from itertools import product
from math import isqrt, prod

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hvd_gossip import graphs
from hvd_gossip.graphs import GRAPHS, Topology

SIZES = st.integers(1, 60)


def same(topology: Topology, expected: np.ndarray) -> None:
    np.testing.assert_allclose(topology.matrix().toarray(), expected, atol=1e-14, rtol=0)


def circulant(n: int, shifts: set[int]) -> np.ndarray:
    """Rank i hears i + s for each shift, all alike."""
    W = np.zeros((n, n))
    heard = {shift % n for shift in shifts} | {0}
    for i, shift in product(range(n), heard):
        W[i, (i + shift) % n] = 1 / len(heard)
    return W


def metropolis(graph: nx.Graph, n: int) -> np.ndarray:
    W = np.zeros((n, n))
    for i, j in graph.edges:
        W[i, j] = W[j, i] = 1 / (1 + max(graph.degree[i], graph.degree[j]))
    return W + np.diag(1 - W.sum(axis=1))


def logarithm(n: int, base: int) -> int:
    """The logarithm, rounded up."""
    return next(t for t in range(99) if base**t >= n)


@settings(deadline=None)
@given(SIZES, st.integers(2, 7))
def test_graphs_around_a_circle(n: int, base: int) -> None:
    same(graphs.ring(n), circulant(n, {-1, 1}))
    same(graphs.ring(n, directed=True), circulant(n, {-1}))
    same(graphs.complete(n), np.full((n, n), 1 / n))
    same(graphs.exponential(n, base), circulant(n, {-(base**t) for t in range(logarithm(n, base))}))
    near = {sign * base**t for t in range(60) for sign in (-1, 1) if 2 * base**t <= n}
    same(graphs.symmetric_exponential(n, base), circulant(n, near))


@settings(deadline=None)
@given(st.integers(3, 60), st.integers(1, 29))
def test_the_ring_lattice_hears_half_of_k_on_either_side(n: int, half: int) -> None:
    if 2 * half < n:
        same(graphs.ring_lattice(n, 2 * half), circulant(n, set(range(-half, half + 1))))


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4).filter(lambda shape: prod(shape) <= 120))
def test_the_torus_steps_both_ways_along_each_dimension_longer_than_one(shape: list[int]) -> None:
    """Where both ways lead to one replica, at length 2, it counts twice."""
    n, wide = prod(shape), sum(length > 1 for length in shape)
    places = np.arange(n).reshape(shape)
    W = np.eye(n)
    for axis, step in product(range(len(shape)), (-1, 1)):
        if shape[axis] > 1:
            W[np.arange(n), np.roll(places, step, axis).ravel()] += 1
    same(graphs.torus(n, shape=tuple(shape)), W / (2 * wide + 1))


def factors(n: int) -> list[int]:
    """Prime factors, repetitions counted."""
    least = next((factor for factor in range(2, n + 1) if n % factor == 0), None)
    return [] if least is None else [least, *factors(n // least)]


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_a_torus_of_so_many_dimensions_is_made_iff_n_has_so_many_factors(dimensions: int) -> None:
    wrong = []
    for n in range(2, 200):
        try:
            made = len(graphs.torus(n, dimensions=dimensions).shape) == dimensions  # type: ignore[attr-defined]
        except ValueError:
            made = False
        if made != (len(factors(n)) >= dimensions):
            wrong.append(n)
    assert wrong == []


@pytest.mark.parametrize("n", [1, 2, 4, 8, 32])
def test_the_hypercube_flips_one_digit(n: int) -> None:
    digits = n.bit_length() - 1
    W = np.eye(n)
    for i, t in product(range(n), range(digits)):
        W[i, i ^ (1 << t)] += 1
    same(graphs.hypercube(n), W / (digits + 1))


@settings(deadline=None)
@given(SIZES)
def test_star_and_tree_have_metropolis_weights(n: int) -> None:
    same(graphs.star(n), metropolis(nx.star_graph(n - 1), n))
    same(graphs.binary_tree(n), metropolis(nx.full_rary_tree(2, n), n))


@settings(deadline=None)
@given(st.sampled_from(["random_regular", "erdos_renyi", "watts_strogatz"]), st.integers(5, 40), st.integers(0, 99))
def test_random_graphs_have_metropolis_weights(name: str, n: int, seed: int) -> None:
    options = {"random_regular": {"d": 4}, "watts_strogatz": {"k": 4, "p": 0.4}}.get(name, {})
    topology = GRAPHS[name](n, seed=seed, **options)
    assert isinstance(topology, Topology)
    same(topology, metropolis(nx.Graph(topology.to_networkx().edges), n))


@settings(deadline=None)
@given(st.integers(2, 60), st.integers(1, 6), st.integers(0, 99))
def test_equistatic_graphs_are_means_of_shifts(n: int, m: int, seed: int) -> None:
    P = np.roll(np.eye(n), 1, axis=1)
    if m < n and (m > 1 or n > 2):
        topology = graphs.d_equistatic(n, m, seed)
        shifts = topology.row(0).sources
        assert len(shifts) == m
        basis = [(n - 1) / n * np.linalg.matrix_power(P, a) + np.eye(n) / n for a in shifts]
        same(topology, np.mean(basis, axis=0))
    if m <= n // 2:
        topology = graphs.u_equistatic(n, m, seed)
        shifts = topology.row(0).sources[topology.row(0).sources <= n // 2]
        assert len(shifts) == m
        basis = [(n - 1) / n * np.linalg.matrix_power(P, a) + np.eye(n) / n for a in shifts]
        same(topology, np.mean([(A + A.T) / 2 for A in basis], axis=0))


@pytest.mark.parametrize("name", ["d_equistatic", "u_equistatic"])
def test_a_single_shift_reaches_every_replica(name: str) -> None:
    """Of a shift that has a factor in common with n, groups would never hear of each other."""
    for n, seed in product((4, 6, 12, 30), range(20)):
        topology = GRAPHS[name](n, m=1, seed=seed)
        assert isinstance(topology, Topology)
        assert nx.is_strongly_connected(topology.to_networkx())


@pytest.mark.parametrize("outer", ["ring", "star", "exponential", "complete"])
@settings(deadline=None, max_examples=30)
@given(st.integers(1, 10), st.integers(1, 6))
def test_groups_are_a_weighted_sum_of_kronecker_products(outer: str, groups: int, size: int) -> None:
    between = GRAPHS[outer](groups).matrix().toarray()
    degree = int((between > 0).sum(axis=1).max()) - 1
    inner = size / (size + degree + 1)
    expected = inner * np.kron(np.eye(groups), np.full((size, size), 1 / size))
    expected += (1 - inner) * np.kron(between, np.eye(size))
    same(graphs.hierarchical(groups * size, groups=groups, outer=outer), expected)


@settings(deadline=None)
@given(SIZES)
def test_groups_are_as_many_as_the_divisor_nearest_to_the_square_root_from_above(n: int) -> None:
    groups = next(d for d in range(1, n + 1) if n % d == 0 and d >= isqrt(n) and d * d >= n)
    assert graphs.hierarchical(n).outer.n == groups  # type: ignore[attr-defined]
