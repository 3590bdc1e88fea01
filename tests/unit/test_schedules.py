"""schedule(): what a user may give as `graph`, and how mistakes are told."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from forms import STATIC, cases
from hypothesis import given, settings, strategies as st

import hvd_gossip
from hvd_gossip import graphs
from hvd_gossip.graphs import GRAPHS, MatrixTopology, Static, Topology, complete, ring, schedule


class RingThenComplete:
    """A user's own schedule: the ring in even rounds, the complete graph in odd ones; epoch 1 turns it round."""

    def __init__(self, n: int) -> None:
        self.name, self.n = "own", n
        self.period: int | None = 2

    def __call__(self, round: int, epoch: int = 0) -> Topology:
        return (complete if (round + epoch) % 2 else ring)(self.n)


def test_graphs_are_listed_by_the_package() -> None:
    assert hvd_gossip.GRAPHS is graphs.GRAPHS
    assert {"complete", "exponential", "ring"} <= set(GRAPHS)


@settings(deadline=None)
@given(cases(STATIC), st.integers(0, 10**9), st.integers(0, 10**4))
def test_a_static_graph_is_the_same_in_every_round(case: tuple[str, int], round: int, epoch: int) -> None:
    form, n = case
    found = schedule(form, n)
    assert found.name.startswith(form.partition(":")[0])
    assert (found.n, found.period) == (n, 1)
    topology = found(round=round, epoch=epoch)
    assert topology is found(round=0)
    np.testing.assert_array_equal(topology.matrix().toarray(), schedule(form, n)(0).matrix().toarray())


@pytest.mark.parametrize("topology", [ring(4), MatrixTopology("mine", np.full((4, 4), 0.25))])
def test_a_topology_is_kept_as_it_is(topology: Topology) -> None:
    found = schedule(topology, 4)
    assert isinstance(found, Static)
    assert found(7, 3) is topology
    assert (found.name, found.n, found.period) == (topology.name, 4, 1)


def test_a_function_of_the_users_is_kept_as_it_is() -> None:
    own = RingThenComplete(4)
    found = schedule(own, 4)
    assert found is own
    assert [found(number).name for number in range(3)] == ["ring", "complete", "ring"]
    assert found(0, epoch=1).name == "complete"


@pytest.mark.parametrize(
    ("graph", "text"),
    [
        ("rign", "did you mean 'ring'?"),
        ("exponental", "did you mean 'exponential'?"),
        ("Complete", "did you mean 'complete'?"),
        ("", "got '': expected NAME or NAME:option=value"),
        ("ring:k=4", "unknown option of graph 'ring' 'k': expected one of directed, weights"),
        ("ring:n=8", "unknown option of graph 'ring' 'n': expected one of directed, weights"),
        ("ring:k", "got 'k' in 'ring:k': expected option=value"),
        (7, "got graph = 7: expected a name, a Topology or a Schedule"),
        (None, "got graph = None: expected a name, a Topology or a Schedule"),
        (ring, "expected a name, a Topology or a Schedule"),
    ],
)
def test_mistakes_are_told(graph: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        schedule(graph, 8)


def test_a_name_near_to_none_gets_no_hint() -> None:
    with pytest.raises(ValueError, match="unknown graph 'xyzzy'") as caught:
        schedule("xyzzy", 8)
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("graph", [ring(4), RingThenComplete(4)])
@pytest.mark.parametrize("n", [2, 8])
def test_a_graph_for_another_number_of_replicas(graph: Any, n: int) -> None:
    name = "ring" if isinstance(graph, Topology) else "own"
    with pytest.raises(ValueError, match=f"graph '{name}' is made for 4 replicas, but this job has {n} ranks"):
        schedule(graph, n)


@pytest.mark.parametrize("n", [4, 8])
def test_a_function_without_a_name_is_no_schedule(n: int) -> None:
    """Messages and the exchange need the name: it is missed here, as a user's mistake, and not later."""

    def unnamed(round: int, epoch: int = 0) -> Topology:
        return ring(4)

    unnamed.n = 4  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"made for 4 replicas|expected a name, a Topology or a Schedule"):
        schedule(unnamed, n)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [0, -3])
def test_a_bad_number_of_replicas_is_told_with_the_graph(n: int) -> None:
    with pytest.raises(ValueError, match=f"graph 'ring': .*got n = {n}, expected an integer number of replicas"):
        schedule("ring", n)
