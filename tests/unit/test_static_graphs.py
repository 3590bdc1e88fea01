"""Static graphs against networkx, against closed forms, and what their factories refuse."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest
from forms import STATIC, cases
from hypothesis import given, settings, strategies as st
from scipy.sparse import csgraph

from hvd_gossip import graphs
from hvd_gossip.graphs import GRAPHS, Cayley, Topology, from_networkx, schedule


def dense(topology: Topology) -> np.ndarray:
    return topology.matrix().toarray()


def edges(topology: Topology) -> set[frozenset[int]]:
    """Undirected edges."""
    return {frozenset(edge) for edge in topology.to_networkx().edges}


def numbered(graph: nx.Graph) -> set[frozenset[int]]:
    """Undirected edges without loops of a networkx graph, nodes numbered in sorted order."""
    number = {node: rank for rank, node in enumerate(sorted(graph.nodes))}
    return {frozenset((number[a], number[b])) for a, b in graph.edges() if a != b}


@settings(deadline=None)
@given(cases(STATIC))
def test_every_replica_is_reached(case: tuple[str, int]) -> None:
    matrix = schedule(*case)(0).matrix()
    assert csgraph.connected_components(matrix, directed=True, connection="strong")[0] == 1


@pytest.mark.parametrize("n", [3, 4, 7, 12, 25])
def test_networkx_generates_the_same_edges(n: int) -> None:
    assert edges(graphs.ring(n)) == numbered(nx.cycle_graph(n))
    assert edges(graphs.star(n)) == numbered(nx.star_graph(n - 1))
    assert edges(graphs.complete(n)) == numbered(nx.complete_graph(n))
    for k in range(2, n, 2):
        assert edges(graphs.ring_lattice(n, k)) == numbered(nx.watts_strogatz_graph(n, k, 0))
    powers = [3**t for t in range(n) if 2 * 3**t <= n]
    assert edges(graphs.symmetric_exponential(n, base=3)) == numbered(nx.circulant_graph(n, powers))


@pytest.mark.parametrize("shape", [(3, 4), (2, 4), (3, 3, 5), (2, 2, 2), (1, 6)])
def test_the_torus_is_the_periodic_grid_with_the_last_coordinate_running_fastest(shape: tuple[int, ...]) -> None:
    n = int(np.prod(shape))
    grid = nx.grid_graph(dim=shape[::-1], periodic=[length > 2 for length in shape[::-1]])
    topology = graphs.torus(n, shape=shape)
    assert edges(topology) == numbered(grid)
    assert edges(graphs.torus(n, shape="x".join(map(str, shape)))) == edges(topology)


@pytest.mark.parametrize(("n", "dimensions", "shape"), [(12, 2, "3x4"), (96, 2, "8x12"), (36, 3, "3x3x4"), (7, 1, "7")])
def test_the_torus_is_balanced_by_default(n: int, dimensions: int, shape: str) -> None:
    assert np.array_equal(dense(graphs.torus(n, dimensions=dimensions)), dense(graphs.torus(n, shape=shape)))


@pytest.mark.parametrize("dimension", range(1, 6))
def test_the_hypercube_of_networkx(dimension: int) -> None:
    assert edges(graphs.hypercube(2**dimension)) == numbered(nx.hypercube_graph(dimension))


@pytest.mark.parametrize("n", [3, 7, 15, 31])
def test_the_binary_tree_of_networkx(n: int) -> None:
    assert edges(graphs.binary_tree(n)) == numbered(nx.balanced_tree(2, (n + 1).bit_length() - 2))


@pytest.mark.parametrize("m", [2, 3, 4, 7])
def test_the_expander_counts_the_multigraph_of_networkx(m: int) -> None:
    counts = nx.to_numpy_array(nx.margulis_gabber_galil_graph(m), nodelist=[(x, y) for x in range(m) for y in range(m)])
    W = dense(graphs.margulis(m * m))
    off = ~np.eye(m * m, dtype=bool)
    np.testing.assert_allclose(W[off], counts[off] / 9, atol=1e-15)


def test_the_expander_stays_one() -> None:
    """The second eigenvalue of the 8-regular multigraph is at most 5 sqrt(2) (Gabber and Galil)."""
    for m in (5, 10, 20, 30):
        second = np.sort(np.abs(np.linalg.eigvalsh(dense(graphs.margulis(m * m)))))[-2]
        assert second <= (5 * np.sqrt(2) + 1) / 9 + 1e-12


@pytest.mark.parametrize("outer", ["ring", "complete", "star"])
def test_groups_are_the_cartesian_product_with_complete_graphs(outer: str) -> None:
    product = nx.cartesian_product(nx.Graph(GRAPHS[outer](4).to_networkx()), nx.complete_graph(3))
    assert edges(graphs.hierarchical(12, groups=4, outer=outer)) == numbered(product)


@pytest.mark.parametrize("base", [2, 3, 5])
@pytest.mark.parametrize("n", [2, 8, 9, 10, 27, 125, 126])
def test_the_degree_of_exponential_graphs_is_the_logarithm_rounded_up(n: int, base: int) -> None:
    degree = next(d for d in range(20) if base**d >= n)
    assert len(graphs.exponential(n, base).row(0).sources) == degree


@settings(deadline=None)
@given(cases({form: fits for form, fits in STATIC.items() if form.split(":")[0] not in ("hierarchical",)}), st.data())
def test_cayley_graphs_look_the_same_from_every_rank(case: tuple[str, int], data: st.DataObject) -> None:
    topology = schedule(*case)(0)
    if not isinstance(topology, Cayley):
        return
    W, n = dense(topology), topology.n
    step = data.draw(st.tuples(*(st.integers(0, length - 1) for length in topology.shape)))
    places = np.stack(np.unravel_index(np.arange(n), topology.shape), axis=1)
    moved = np.ravel_multi_index(tuple(((places + step) % topology.shape).T), topology.shape)
    np.testing.assert_array_equal(W[np.ix_(moved, moved)], W)
    powers = [np.trace(np.linalg.matrix_power(W, power)) for power in range(1, 6)]
    spectrum = topology.eigenvalues().ravel()
    np.testing.assert_allclose([(spectrum**power).sum() for power in range(1, 6)], powers, atol=1e-10)


@settings(deadline=None)
@given(cases(STATIC, largest=24))
def test_networkx_and_back(case: tuple[str, int]) -> None:
    topology = schedule(*case)(0)
    if topology.n == 1:
        return
    back = from_networkx(topology.to_networkx())
    np.testing.assert_allclose(dense(back), dense(topology), atol=1e-12)


def test_edge_keys_differ_where_edges_do() -> None:
    found = [schedule(form, 16)(0) for form, fits in STATIC.items() if fits(16)]
    for one, other in pairwise(sorted(found, key=lambda topology: topology.name)):
        if one.edges == other.edges:
            assert edges(one) == edges(other)
    assert graphs.ring(16).edges == graphs.ring_lattice(16, 2).edges
    assert graphs.ring(16).edges != graphs.ring(16, directed=True).edges


@pytest.mark.parametrize(
    ("form", "n", "text"),
    [
        ("ring_lattice:k=3", 8, "got k = 3: k counts the neighbours on both sides together, give 2 or 4"),
        ("ring_lattice:k=8", 8, "got k = 8 for 8 replicas, expected less than n; use 'complete'"),
        ("ring_lattice:k=0", 8, "got k = 0, expected an integer of at least 2"),
        ("ring_lattice:k=2.5", 8, "got k = 2.5, expected an integer of at least 2"),
        ("ring_lattice", 8, "graph 'ring_lattice' needs the option k: give ring_lattice:k=…"),
        ("torus", 7, "7 replicas make no torus of 2 dimensions longer than 1: take 6 or 8 replicas, give shape=1x7"),
        ("torus", 2, "take 4 replicas"),
        ("torus:dimensions=3", 1_234_567_891, "make no torus of 3 dimensions"),
        ("torus:shape=3x5", 12, "a shape of 3x5 holds 15 replicas, but there are 12"),
        ("torus:shape=3by4", 12, "got shape = '3by4', expected lengths of at least 1, for example 4x6"),
        ("hypercube", 6, "got n = 6, expected a power of two: 4 or 8"),
        ("margulis", 10, "got n = 10, expected a square: 9 or 16"),
        ("exponential:base=1", 8, "got base = 1, expected an integer of at least 2"),
        ("random_regular:d=8", 8, "got d = 8 for 8 replicas, expected less than n, and n d even"),
        ("random_regular:d=3", 7, "got d = 3 for 7 replicas, expected less than n, and n d even"),
        ("random_regular:d=1", 6, "pairs alone are not connected"),
        ("erdos_renyi:p=0", 8, "got p = 0, expected a probability above 0, at most 1"),
        ("erdos_renyi:p=1.5", 8, "got p = 1.5, expected a probability above 0, at most 1"),
        ("erdos_renyi:p=0.0001", 8, "none of 100 graphs drawn is connected: give a larger p"),
        ("erdos_renyi:seed=-1", 8, "got seed = -1, expected an integer of at least 0"),
        ("watts_strogatz:k=3", 8, "got k = 3 for 8 replicas, expected an even number less than n"),
        ("watts_strogatz:k=4,p=2", 8, "got p = 2, expected a probability from 0 to 1"),
        ("d_equistatic:m=8", 8, "got m = 8 for 8 replicas, expected at most 7 shifts"),
        ("u_equistatic:m=5", 8, "got m = 5 for 8 replicas, expected at most 4 shifts"),
        ("hierarchical:groups=5", 12, "12 replicas make no 5 equal groups, expected one of 1, 2, 3, 4, 6, 12"),
        ("hierarchical:groups=4,outer=rign", 12, "did you mean 'ring'?"),
        ("hierarchical:groups=4,outer=random_ring", 12, "changes from round to round"),
    ],
)
def test_mistakes_are_told(form: str, n: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        schedule(form, n)
