"""What schedule() says of graphs of one's own that do not bring all replicas to their even mean."""

from __future__ import annotations

import re
import warnings
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hvd_gossip.graphs import (
    Circulant,
    EdgeList,
    MatrixTopology,
    Relabelled,
    Row,
    Static,
    Topology,
    from_networkx,
    limit_weights,
    limits,
    reweight,
    ring,
    schedule,
    star,
)
from hvd_gossip.graphs.limits import closed_classes, drift, require_agreement

APART = np.kron(np.eye(2), np.full((2, 2), 0.5))
SWAP = [[0.0, 1.0], [1.0, 0.0]]
UNEVEN = [[0.5, 0.5], [0.25, 0.75]]


class Following(Topology):
    """Everybody hears replica 0, half and half, and 0 hears replica 1."""

    def row(self, rank: int) -> Row:
        hearers = np.arange(1, self.n) if rank == 0 else np.arange(1 if rank == 1 else 0)
        return Row(0.5, np.array([1 if rank == 0 else 0]), np.array([0.5]), hearers)

    @property
    def edges(self) -> Any:
        return ("following", self.n)


@pytest.mark.parametrize(
    "graph",
    [
        MatrixTopology("apart", APART),
        Static(MatrixTopology("apart", APART)),
        Circulant("apart", 4, (2,)),
        EdgeList("apart", 4, np.array([0, 2]), np.array([1, 3])),
        Relabelled("apart", Circulant("pairs", 4, (2,)), np.array([3, 1, 2, 0])),
    ],
    ids=["matrix", "static", "circulant", "edge list", "relabelled"],
)
def test_a_graph_of_ones_own_that_is_not_connected_is_refused(graph: Any) -> None:
    with pytest.raises(ValueError, match="graph 'apart' is not connected: replicas 0 and . never hear of each other"):
        schedule(graph, 4)


@pytest.mark.parametrize(
    "graph",
    [MatrixTopology("own", UNEVEN), Static(MatrixTopology("own", UNEVEN)), Following("own", 4)],
    ids=["matrix", "static", "subclass"],
)
def test_a_graph_of_ones_own_that_loses_the_mean_is_warned_of(graph: Any) -> None:
    with pytest.warns(UserWarning, match="graph 'own': W is not doubly stochastic.*replica . counts"):
        schedule(graph, graph.n)


def test_a_graph_of_ones_own_that_keeps_the_mean_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert schedule(Following("own", 2), 2)(0).doubly_stochastic


@pytest.mark.parametrize(
    "matrix", [SWAP, np.roll(np.eye(3), 1, axis=1), np.kron([[0, 1], [1, 0]], np.full((2, 2), 0.5))]
)
def test_replicas_that_only_take_turns_never_agree(matrix: Any) -> None:
    """The graph is connected, but the powers of W come round again: their gap is 0."""
    turning = MatrixTopology("turning", matrix)
    for refuse in (limit_weights, lambda topology: schedule(topology, topology.n)):
        with pytest.raises(ValueError, match="graph 'turning'"):
            refuse(turning)


def test_networkx_graphs_that_only_take_turns_are_refused() -> None:
    cycle = nx.DiGraph()
    cycle.add_weighted_edges_from([(0, 1, 1.0), (1, 2, 1.0), (2, 0, 1.0)])
    with pytest.raises(ValueError, match="graph 'networkx'"):
        from_networkx(cycle)


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 7), st.integers(0, 10**6))
def test_groups_that_hear_nobody_else_are_those_that_networkx_finds(n: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    W = (draw.random((n, n)) < 0.25) + np.eye(n)
    topology = MatrixTopology("own", W / W.sum(axis=1, keepdims=True))
    hears = nx.from_numpy_array((W > 0).astype(int), create_using=nx.DiGraph)
    closed = sorted(min(group) for group in nx.attracting_components(hears))
    assert sorted(closed_classes(topology)) == closed
    if len(closed) > 1:
        with pytest.raises(ValueError, match=re.escape(f"({len(closed)} separate groups)")):
            require_agreement(topology)
    else:
        many = np.linalg.matrix_power(topology.matrix().toarray(), 4000)
        np.testing.assert_allclose(np.tile(limit_weights(topology), (n, 1)), many, atol=1e-8)


@settings(deadline=None)
@given(st.integers(2, 30), st.integers(0, 10**6))
def test_uniform_weights_of_any_graph_drift_to_a_mean_weighted_by_degree_plus_one(n: int, seed: int) -> None:
    graph = nx.connected_watts_strogatz_graph(n, min(n - 1, 4), 0.6, seed=seed) if n > 2 else nx.path_graph(n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = from_networkx(graph, weights="uniform")
    expected = np.array([graph.degree[rank] + 1 for rank in range(n)])
    np.testing.assert_allclose(limit_weights(made), expected / expected.sum(), atol=1e-12)


def uneven_star(n: int) -> Topology:
    with pytest.warns(UserWarning, match="not doubly stochastic"):
        return reweight(star(n), "uniform")


def test_the_warning_names_the_most_and_the_least_counting_replica_and_the_way_out() -> None:
    told = drift(uneven_star(5), "s")
    assert told.startswith("graph 's': W is not doubly stochastic")
    assert "replica 0 counts 0.385 and replica " in told
    assert " 0.154 (even: 0.2); weights=metropolis keeps the even mean where every edge has both directions" in told


def test_the_warning_gives_no_numbers_where_they_cost_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    made = uneven_star(5)
    monkeypatch.setattr(limits, "LARGEST", 4)
    told = drift(made, "s")
    assert "do not drift to their even mean; weights=metropolis" in told
    assert "counts" not in told


def test_the_warning_gives_no_numbers_where_there_is_no_one_limit() -> None:
    apart = MatrixTopology("apart", np.kron(np.eye(2), UNEVEN))
    assert "do not drift to their even mean; weights=metropolis" in drift(apart, "s")


def test_a_doubly_stochastic_graph_is_handed_on_without_a_word() -> None:
    topology = ring(6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert limits.checked(topology) is topology
    np.testing.assert_allclose(limit_weights(topology), 1 / 6)
