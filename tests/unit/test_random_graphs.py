"""Random graphs: their degrees, that seeds decide, and that a seed means the same graph everywhere."""

from __future__ import annotations

import hashlib
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hvd_gossip.graphs import Topology, erdos_renyi, random_regular, ring_lattice, schedule, watts_strogatz
from hvd_gossip.graphs.limits import closed_classes
from hvd_gossip.graphs.seeds import hash64


def pattern(topology: Topology) -> np.ndarray:
    """Which replicas hear which."""
    W = topology.matrix().toarray()
    return (W > 0) & ~np.eye(topology.n, dtype=bool)


@settings(deadline=None)
@given(st.integers(2, 40), st.integers(1, 39), st.integers(0, 100))
def test_regular_graphs_are_simple_and_regular(n: int, d: int, seed: int) -> None:
    if d >= n or n * d % 2 or (d == 1 and n > 2):
        return
    assert (pattern(random_regular(n, d, seed)).sum(axis=1) == d).all()


def test_random_regular_graphs_expand() -> None:
    """Friedman: the second eigenvalue of the adjacency matrix is about 2 sqrt(d - 1)."""
    for d in (3, 4, 6):
        W = random_regular(500, d, seed=1).matrix().toarray()
        second = np.sort(np.abs(np.linalg.eigvalsh(W)))[-2]
        assert second <= (2.15 * np.sqrt(d - 1) + 1) / (d + 1)


def test_all_regular_graphs_come_up_about_equally_often() -> None:
    """There are 70 connected labelled cubic graphs of 6 nodes: 60 prisms and 10 of the kind K(3,3)."""
    counts: dict[bytes, int] = {}
    for seed in range(2800):
        key = pattern(random_regular(6, 3, seed)).tobytes()
        counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 70
    assert max(counts.values()) < 4 * min(counts.values())


@pytest.mark.parametrize("p", [0.2, 0.5, 1.0])
def test_pairs_are_joined_with_their_probability(p: float) -> None:
    n, pairs = 60, 60 * 59 / 2
    found = [pattern(erdos_renyi(n, p, seed)).sum() / 2 for seed in range(40)]
    deviation = np.sqrt(pairs * p * (1 - p) / len(found))
    assert abs(np.mean(found) - pairs * p) <= 4 * deviation


def test_pairs_are_joined_independently_of_each_other() -> None:
    """Two edges at one replica, and two apart, occur together as often as chance has it."""
    drawn = np.array([pattern(erdos_renyi(12, 0.5, seed)) for seed in range(1500)])
    edges = np.array([drawn[:, i, j] for i, j in combinations(range(12), 2)], dtype=float)
    correlation = np.corrcoef(edges) - np.eye(len(edges))
    assert np.abs(correlation).max() < 5 / np.sqrt(1500)


@settings(deadline=None)
@given(st.integers(3, 40), st.integers(1, 10), st.floats(0, 1), st.integers(0, 20))
def test_moved_edges_keep_their_number_and_their_start(n: int, half: int, p: float, seed: int) -> None:
    if 2 * half >= n:
        return
    found = pattern(watts_strogatz(n, 2 * half, p, seed))
    assert found.sum() == n * 2 * half
    assert (found.sum(axis=1) >= half).all()


def test_without_moving_a_small_world_is_the_lattice() -> None:
    for n, k in ((8, 4), (21, 6), (5, 4)):
        assert np.array_equal(pattern(watts_strogatz(n, k, p=0)), pattern(ring_lattice(n, k)))


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_the_fraction_of_moved_edges_is_p(p: float) -> None:
    n, k = 2000, 6
    stayed = (pattern(watts_strogatz(n, k, p, seed=1)) & pattern(ring_lattice(n, k))).sum() / (n * k)
    assert stayed == pytest.approx(1 - p, abs=4 * np.sqrt(p * (1 - p) / (n * k / 2)) + k / n)


FORMS = ("random_regular:d=4", "erdos_renyi", "watts_strogatz:k=4,p=0.3", "d_equistatic", "u_equistatic:m=3")


@pytest.mark.parametrize("form", FORMS)
def test_seeds_decide(form: str) -> None:
    one, again, other = (schedule(form, 64, seed)(0) for seed in (7, 7, 8))
    assert np.array_equal(one.matrix().toarray(), again.matrix().toarray())
    assert one.edges == again.edges
    assert not np.array_equal(pattern(one), pattern(other))
    assert one.edges != other.edges
    given = schedule(f"{form}{',' if ':' in form else ':'}seed=7", 64, seed=99)(0)
    assert np.array_equal(one.matrix().toarray(), given.matrix().toarray())


@pytest.mark.parametrize("form", ["hierarchical:outer", "alternating:outer", "periodic:graph", "matcha:base"])
def test_a_random_graph_within_a_graph_follows_the_seed_too(form: str) -> None:
    n = 100 if form.endswith("outer") else 10
    one, again, other = (schedule(f"{form}=random_regular:d=3", n, seed) for seed in (7, 7, 8))
    heard = [[pattern(rounds(t)) for t in range(8)] for rounds in (one, again, other)]
    assert np.array_equal(heard[0], heard[1])
    assert not np.array_equal(np.any(heard[0], axis=0), np.any(heard[2], axis=0))


@pytest.mark.parametrize(
    ("form", "digest"),
    [
        ("random_regular:d=4", "5c251de15c242c5b"),
        ("erdos_renyi", "011dd76eccfe68ac"),
        ("watts_strogatz:k=4,p=0.3", "34605863d3868b4c"),
        ("d_equistatic", "8e2e59cd45c00970"),
        ("random_ring", "9f7fc75ca157f98c"),
        ("random_matching", "d5bdf6b44cdccb21"),
        ("ou_equidyn", "822bed383fe9f99f"),
    ],
)
def test_a_seed_means_the_same_graph_on_every_machine(form: str, digest: str) -> None:
    """Ranks may run different machines and versions: the edges of seed 1, round 3 are written down here."""
    found = np.packbits(pattern(schedule(form, 24, seed=1)(3))).tobytes()
    assert hashlib.sha256(found).hexdigest()[:16] == digest


def edges(topology: Topology) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in np.argwhere(np.triu(pattern(topology)))]


def test_edges_of_a_seed_are_these() -> None:
    regular = [(0, 3), (0, 5), (0, 7), (1, 2), (1, 6), (1, 7), (2, 5), (2, 6), (3, 4), (3, 5), (4, 6), (4, 7)]
    assert edges(random_regular(8, 3, seed=1)) == regular
    moved = [(0, 5), (1, 2), (1, 4), (1, 7), (2, 3), (2, 5), (3, 4), (4, 6)]
    assert edges(watts_strogatz(8, 2, p=0.5, seed=2)) == moved


def test_the_hash_of_pairs_is_splitmix64() -> None:
    """The first numbers of its stream from 0, as published with the generator."""
    steps = np.arange(4, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
    assert hash64(steps).tolist() == published


@pytest.mark.parametrize("n", [1000, 20_002])
def test_regular_graphs_are_connected_or_refused(n: int) -> None:
    """Two neighbours each make rings, and hardly ever a single one."""
    try:
        topology = random_regular(n, 2, seed=0)
    except ValueError as error:
        assert "is connected" in str(error)
    else:
        assert len(closed_classes(topology)) == 1
