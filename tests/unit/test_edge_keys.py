"""The key of an edge set: what communicators are kept by, so equal keys must mean equal edges on every rank."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator

import numpy as np
import pytest
from forms import FORMS, RANDOM, STATIC

from hvd_gossip.graphs import EdgeList, MatrixTopology, Topology, reweight, schedule

SEEDED = ("random_regular:d=3", "watts_strogatz:k=2,p=0.5", "d_equistatic:m=2", "u_equistatic:m=2")
SIZES = (2, 6, 8, 9)


def edges(topology: Topology) -> frozenset[tuple[int, int]]:
    return frozenset(topology.to_networkx().edges)


def drawn(n: int) -> Iterator[Topology]:
    """Every form that fits, with several seeds and rounds."""
    for form, fits in FORMS.items():
        seeds = range(8) if form in RANDOM or form.startswith(("random", "erdos", "watts", "d_", "u_")) else (0,)
        for seed in seeds if fits(n) else ():
            rounds = schedule(form, n, seed)
            yield from (rounds(t, t) for t in (range(6) if rounds.period != 1 else (0,)))


@pytest.mark.parametrize("n", SIZES)
def test_equal_keys_mean_equal_edges_among_all_graphs_seeds_and_rounds(n: int) -> None:
    found: dict[Hashable, frozenset[tuple[int, int]]] = {}
    for topology in drawn(n):
        assert found.setdefault(topology.edges, edges(topology)) == edges(topology), topology


def test_keys_of_different_numbers_of_replicas_differ() -> None:
    keys = [{topology.edges for topology in drawn(n)} for n in SIZES]
    assert sum(map(len, keys)) == len(set().union(*keys))


def test_the_number_of_replicas_is_part_of_the_key() -> None:
    one, other = np.array([0]), np.array([1])
    assert EdgeList("own", 2, one, other).edges != EdgeList("own", 3, one, other).edges
    assert MatrixTopology("own", np.eye(2)).edges != MatrixTopology("own", np.eye(3)).edges


@pytest.mark.parametrize("form", SEEDED)
def test_seeds_that_draw_the_same_edges_share_a_key(form: str) -> None:
    keys: dict[frozenset[tuple[int, int]], set[Hashable]] = {}
    for seed in range(150):
        topology = schedule(form, 6, seed)(0)
        keys.setdefault(edges(topology), set()).add(topology.edges)
    assert 1 < len(keys) < 150
    assert all(len(same) == 1 for same in keys.values())


def test_graphs_that_differ_in_their_weights_alone_share_a_key() -> None:
    other = []
    for form, fits in STATIC.items():
        n = next(n for n in (6, 9, 8) if fits(n))
        topology = schedule(form, n)(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if reweight(topology, "lazy").edges != topology.edges:
                other.append(form)
    assert other == []
