"""Graphs ranked for a machine."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hvd_gossip.graphs.cost import Link
from hvd_gossip.graphs.planning import CANDIDATES, plan


def test_choices_are_ranked_by_the_time_to_consensus_and_say_why() -> None:
    made = plan(24, 1e6, ranks_per_node=6)
    times = [choice.seconds for choice in made.choices]
    assert times == sorted(times)
    for choice in made.choices:
        assert choice.seconds == pytest.approx(choice.rounds * choice.step.seconds)
        assert re.search("round", choice.why)
        assert choice.step.limit in choice.why


def test_every_candidate_is_a_choice_or_left_out_with_its_reason() -> None:
    made = plan(24, 1e6, ranks_per_node=6)
    names = {choice.graph for choice in made.choices}
    assert names | made.left_out.keys() == {
        *CANDIDATES,
        "hierarchical:groups=4",
        "alternating:groups=4",
        "allreduce (ring)",
        "allreduce (tree)",
    }
    assert not names & made.left_out.keys()
    assert made.left_out.keys() == {"hypercube"}
    assert "power of two" in made.left_out["hypercube"]


def test_what_is_exact_needs_its_period_and_not_more() -> None:
    rounds = {choice.graph: choice.rounds for choice in plan(96, 1e6).choices}
    assert rounds["base_k:k=2"] == 6
    assert rounds["complete"] == rounds["allreduce (ring)"] == 1
    assert rounds["ring"] > rounds["torus"] > rounds["exponential"]


def test_where_latency_rules_the_ring_allreduce_loses_to_graphs_of_few_rounds() -> None:
    slow = {"between": Link(latency=1e-3, bandwidth=1e12)}
    order = [choice.graph for choice in plan(64, 1e6, links=slow).choices]
    assert order.index("base_k:k=4") < order.index("allreduce (ring)")
    wide = {"between": Link(latency=1e-9, bandwidth=1e9)}
    order = [choice.graph for choice in plan(64, 1e6, links=wide).choices]
    assert order.index("allreduce (ring)") < order.index("base_k:k=4")


def test_a_weaker_consensus_takes_fewer_rounds() -> None:
    strict, loose = (
        {choice.graph: choice.rounds for choice in plan(48, 1e6, epsilon=epsilon).choices} for epsilon in (1e-6, 1e-2)
    )
    assert strict["ring"] > 2.9 * loose["ring"]
    assert strict["base_k:k=2"] == loose["base_k:k=2"]


def test_graphs_that_are_asked_for_are_compared_alone_with_allreduce() -> None:
    made = plan(8, 1e6, graphs=("ring", "hypercube"))
    assert {choice.graph for choice in made.choices} == {"ring", "hypercube", "allreduce (ring)", "allreduce (tree)"}


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_replicas_are_planned_too(n: int) -> None:
    made = plan(n, 1e6, 2)
    assert len(made.choices) > 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "expected an integer number of replicas of at least 1"),
        ({"parameters": 0}, "got parameters = 0"),
        ({"parameters": float("inf")}, "got parameters = inf"),
        ({"epsilon": 1.0}, "got epsilon = 1.0, expected a fraction between 0 and 1"),
        ({"epsilon": 0}, "got epsilon = 0, expected a fraction between 0 and 1"),
        ({"wire_bytes": 0}, "got wire_bytes = 0"),
        ({"graphs": ("rign",)}, "did you mean 'ring'?"),
        ({"graphs": ("torus",), "n": 7}, "7 replicas make no torus"),
    ],
)
def test_mistakes_are_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        plan(**{"n": 8, "parameters": 1e6, **options})
