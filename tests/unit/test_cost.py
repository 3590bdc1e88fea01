"""What a step costs: counted by hand and by brute force, and allreduce by its formulas."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hvd_gossip.graphs import Topology, complete, exponential, random_regular, ring, schedule, star
from hvd_gossip.graphs.cost import (
    BETWEEN,
    INSIDE,
    Link,
    Machine,
    gossip_cost,
    links,
    ring_allreduce_cost,
    schedule_cost,
    tree_allreduce_cost,
)

FREE = Link(latency=0.0, bandwidth=1e30)


def counted(topology: Topology, ranks_per_node: int) -> dict[str, float]:
    """Messages of the busiest rank and over the busiest link of each kind, one edge after the other."""
    sent = dict.fromkeys(range(topology.n), 0)
    inside_out, inside_in = dict(sent), dict(sent)
    between_out = dict.fromkeys(range(topology.n), 0)
    between_in = dict(between_out)
    for rank in range(topology.n):
        for source in topology.row(rank).sources.tolist():
            sent[source] += 1
            if source // ranks_per_node == rank // ranks_per_node:
                inside_out[source] += 1
                inside_in[rank] += 1
            else:
                between_out[source // ranks_per_node] += 1
                between_in[rank // ranks_per_node] += 1
    return {
        "sent": max(sent.values()),
        "inside": max(*inside_out.values(), *inside_in.values()),
        "between": max(*between_out.values(), *between_in.values()),
    }


@settings(deadline=None)
@given(
    st.sampled_from(["ring", "exponential", "star", "binary_tree", "complete", "d_equistatic"]),
    st.integers(2, 30),
    st.integers(1, 8),
)
def test_bytes_and_links_equal_a_count_edge_by_edge(name: str, n: int, ranks_per_node: int) -> None:
    topology = schedule(name, n)(0)
    expected = counted(topology, ranks_per_node)
    slow = {"inside": Link(0.0, 1.0), "between": Link(0.0, 1.0)}
    for kind in slow:
        machine = Machine(ranks_per_node, **{"inside": FREE, "between": FREE, kind: slow[kind]})
        cost = gossip_cost(topology, parameters=10, machine=machine, wire_bytes=2)
        assert (cost.bytes, cost.messages) == (20 * expected["sent"], expected["sent"])
        assert cost.seconds == pytest.approx(20 * expected[kind])
        if expected[kind]:
            assert cost.link_bytes == 20 * expected[kind]


def test_a_ring_of_nodes_has_one_message_each_way_over_the_network() -> None:
    cost = gossip_cost(ring(12), 1e6, Machine(4, between=Link(0.0, 1e9)))
    assert (cost.link, cost.link_bytes) == ("between nodes", 2 * 4e6)
    assert cost.limit == "bandwidth between nodes"


def test_latency_passes_once_and_overhead_counts_for_every_message_sent_and_received() -> None:
    machine = Machine(1, between=Link(latency=1e-3, bandwidth=1e30, overhead=1e-4))
    assert gossip_cost(ring(8), 1, machine).seconds == pytest.approx(1e-3 + 4 * 1e-4)
    assert gossip_cost(star(8), 1, machine).seconds == pytest.approx(1e-3 + 14 * 1e-4)


def test_one_replica_costs_nothing() -> None:
    cost = gossip_cost(ring(1), 1e9, Machine())
    assert (cost.bytes, cost.messages, cost.seconds, cost.limit) == (0, 0, 0, "nothing is sent")
    assert ring_allreduce_cost(1, 1e9, Machine()).seconds == 0
    assert tree_allreduce_cost(1, 1e9, Machine()).seconds == 0


@given(st.integers(2, 5000), st.floats(1, 1e9))
def test_ring_allreduce_sends_2_n_minus_1_parts(n: int, parameters: float) -> None:
    link = Link(latency=1e-6, bandwidth=1e9, overhead=1e-7)
    cost = ring_allreduce_cost(n, parameters, Machine(1, between=link))
    assert cost.messages == 2 * (n - 1)
    assert cost.bytes == pytest.approx(2 * (n - 1) / n * 4 * parameters)
    assert cost.seconds == pytest.approx(2 * (n - 1) * (1e-6 + 2e-7) + cost.bytes / 1e9)


@given(st.integers(1, 12), st.floats(1, 1e9))
def test_tree_allreduce_takes_two_ways_through_the_levels(levels: int, parameters: float) -> None:
    cost = tree_allreduce_cost(2**levels, parameters, Machine(1, between=Link(1e-6, 1e9)))
    assert cost.messages == levels
    assert cost.seconds == pytest.approx(2 * levels * (1e-6 + 4 * parameters / 1e9))


def test_inside_one_node_the_network_is_not_used() -> None:
    machine = Machine(8, inside=Link(0.0, 1e9), between=Link(1.0, 1.0))
    for cost in (ring_allreduce_cost(8, 1e6, machine), tree_allreduce_cost(8, 1e6, machine)):
        assert cost.link == "inside a node"
        assert cost.seconds < 1
    assert gossip_cost(complete(8), 1e6, machine).seconds == pytest.approx(7 * 4e6 / 1e9)


def test_a_schedule_costs_the_mean_of_its_period() -> None:
    rounds = schedule("alternating:groups=4", 16)
    machine = Machine(4)
    each = [gossip_cost(rounds(t), 1e6, machine) for t in range(2)]
    found = schedule_cost(rounds, 1e6, machine)
    assert found.bytes == pytest.approx(sum(cost.bytes for cost in each) / 2)
    assert found.seconds == pytest.approx(sum(cost.seconds for cost in each) / 2)
    assert found.link_bytes == max(each, key=lambda cost: cost.seconds).link_bytes


def test_twice_the_parameters_or_the_bytes_is_twice_the_traffic() -> None:
    topology = random_regular(20, 4, seed=1)
    one, two = gossip_cost(topology, 1e6, Machine(4)), gossip_cost(topology, 2e6, Machine(4))
    assert two.bytes == 2 * one.bytes
    assert gossip_cost(topology, 1e6, Machine(4), wire_bytes=8) == two
    assert gossip_cost(exponential(64), 1e6, Machine()).bytes == 6 * 4e6


def test_links_are_read_from_short_forms() -> None:
    found = links(["between:latency=1e-5,bandwidth=1e9", "inside:overhead=0"])
    assert found["between"] == Link(1e-5, 1e9, BETWEEN.overhead)
    assert found["inside"] == Link(INSIDE.latency, INSIDE.bandwidth, 0)
    assert links([]) == {"inside": INSIDE, "between": BETWEEN}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("betwen:latency=1", "unknown link 'betwen': expected one of between, inside; did you mean 'between'?"),
        ("between:latncy=1", "unknown value of link 'between' 'latncy'"),
        ("between:latency=-1", "link: got latency = -1, expected a finite number of seconds, at least 0"),
        ("between:latency=fast", "link: got latency = 'fast', expected a finite number"),
        ("inside:bandwidth=0", "link: got bandwidth = 0, expected a finite number of bytes a second, above 0"),
        ("inside", "got link 'inside': expected inside:latency=…"),
    ],
)
def test_wrong_links_are_told(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        links([text])


@pytest.mark.parametrize("ranks", [0, -1, 1.5, True])
def test_wrong_nodes_are_told(ranks: Any) -> None:
    with pytest.raises(ValueError, match="got ranks_per_node = .*, expected an integer of at least 1"):
        Machine(ranks)


@pytest.mark.parametrize(
    ("n", "per_node", "inner", "outer"),
    [(8, 5, 3, 1), (1008, 6, 3, 8), (8, 8, 3, 0), (8, 1, 0, 3), (5, 2, 1, 2), (3, 100, 2, 0), (1, 4, 0, 0)],
)
def test_a_tree_goes_through_the_nodes_and_then_between_them(n: int, per_node: int, inner: int, outer: int) -> None:
    machine = Machine(per_node, inside=Link(0, 10.0), between=Link(0, 1.0))
    cost = tree_allreduce_cost(n, 1, machine, wire_bytes=1)
    assert cost.seconds == pytest.approx(2 * (inner / 10 + outer))
    assert cost.messages == inner + outer


@pytest.mark.parametrize("bad", [0, -5, float("nan"), float("inf"), True, "many"])
def test_a_message_has_a_size(bad: Any) -> None:
    for call in (gossip_cost, schedule_cost):
        with pytest.raises(ValueError, match="got parameters = .*expected a finite number above 0"):
            call(ring(4), bad, Machine())
    for allreduce in (ring_allreduce_cost, tree_allreduce_cost):
        with pytest.raises(ValueError, match="got wire_bytes = .*expected a finite number above 0"):
            allreduce(4, 1e6, Machine(), bad)


def test_a_machine_has_links() -> None:
    with pytest.raises(ValueError, match="got inside = 3, expected a Link"):
        Machine(2, inside=3)  # type: ignore[arg-type]
