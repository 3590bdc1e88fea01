"""Which graph for this machine and this many replicas: graphs ranked by the time they need to a given consensus."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import NamedTuple

from hvd_gossip.graphs.consensus import Rate, check_epsilon, consensus_rate, rounds_to_consensus
from hvd_gossip.graphs.cost import Cost, Link, Machine, ring_allreduce_cost, schedule_cost, tree_allreduce_cost
from hvd_gossip.graphs.registry import schedule
from hvd_gossip.graphs.topology import replicas

CANDIDATES = (
    "ring",
    "torus",
    "hypercube",
    "exponential",
    "symmetric_exponential",
    "d_equistatic",
    "u_equistatic",
    "complete",
    "one_peer_exponential",
    "base_k:k=1",
    "base_k:k=2",
    "base_k:k=4",
    "random_ring",
    "random_matching",
    "od_equidyn",
    "ou_equidyn",
)
LARGEST_EDGES = 20_000_000
"""Graphs with more edges are left out."""


class Choice(NamedTuple):
    """A graph with its price and what it does; `seconds` is the time to the consensus asked for."""

    graph: str
    degree: int
    rate: Rate
    rounds: float
    step: Cost
    seconds: float
    why: str


class Plan(NamedTuple):
    """Choices, best first, and what was left out with the reason."""

    choices: list[Choice]
    left_out: dict[str, str]


def plan(
    n: int,
    parameters: float,
    ranks_per_node: int = 1,
    links: Mapping[str, Link] | None = None,
    epsilon: float = 1e-3,
    wire_bytes: float = 4,
    graphs: tuple[str, ...] = (),
    seed: int = 0,
) -> Plan:
    r"""Rank graphs by the time until the disagreement of the replicas is below epsilon of what it was.

    `time = rounds to consensus * seconds of a step`; allreduce by a ring and by a tree, which need one round, are
    ranked with them.

    Args:
        n: number of replicas.
        parameters: how many the model has.
        ranks_per_node: replicas on a node.
        links: "inside" and "between" nodes (default: those of `Machine`, which are assumptions).
        epsilon: the fraction of the disagreement that may be left.
        wire_bytes: bytes of one parameter on the wire.
        graphs: short forms (default: those that fit n and this machine's nodes).
        seed: for random graphs.

    Raises:
        ValueError: n, parameters or epsilon is out of range, or a graph that was asked for does not fit.

    Example:
        >>> plan(64, 25.6e6, ranks_per_node=4).choices[0].rounds
        1

    Source: arXiv:2110.13363 (rounds against degree).
    """
    n = replicas("plan", n)
    check_epsilon(epsilon)
    if not parameters > 0 or not math.isfinite(parameters) or not wire_bytes > 0:
        raise ValueError(f"got parameters = {parameters!r} of {wire_bytes!r} bytes, expected positive numbers")
    machine = Machine(ranks_per_node, **(links or {}))
    choices, left_out = allreduces(n, parameters, machine, wire_bytes), {}
    for text in graphs or candidates(n, machine):
        try:
            choices.append(choice(text, n, parameters, machine, epsilon, wire_bytes, seed))
        except ValueError as error:
            if graphs:
                raise
            left_out[text] = str(error)
    return Plan(sorted(choices, key=lambda found: (found.seconds, found.step.seconds)), left_out)


def candidates(n: int, machine: Machine) -> list[str]:
    """Graphs without options, and those that follow the nodes."""
    nodes, rest = divmod(n, machine.ranks_per_node)
    fitting = rest == 0 and 1 < nodes < n
    grouped = [f"{name}:groups={nodes}" for name in ("hierarchical", "alternating") if fitting]
    return [*CANDIDATES, *grouped]


def allreduces(n: int, parameters: float, machine: Machine, wire_bytes: float) -> list[Choice]:
    """Horovod's way, as a ring and as a tree: exact in one round."""
    exact = Rate(0.0, "exact", 1)
    ring = ring_allreduce_cost(n, parameters, machine, wire_bytes)
    tree = tree_allreduce_cost(n, parameters, machine, wire_bytes)
    return [
        Choice("allreduce (ring)", min(1, n - 1), exact, 1, ring, ring.seconds, reason(exact, ring)),
        Choice("allreduce (tree)", (n - 1).bit_length(), exact, 1, tree, tree.seconds, reason(exact, tree)),
    ]


def choice(
    text: str, n: int, parameters: float, machine: Machine, epsilon: float, wire_bytes: float, seed: int
) -> Choice:
    """One graph.

    Raises:
        ValueError: it does not fit n, or has too many edges.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = schedule(text, n, seed)
    degree = getattr(found, "degree", None) or 0
    if degree * n > LARGEST_EDGES:
        raise ValueError(f"more than {LARGEST_EDGES:,} edges")
    rate = consensus_rate(found)
    rounds = rounds_to_consensus(rate, epsilon)
    step = schedule_cost(found, parameters, machine, wire_bytes)
    return Choice(text, degree, rate, rounds, step, rounds * step.seconds, reason(rate, step))


def reason(rate: Rate, step: Cost) -> str:
    """Why it takes so long, in words."""
    if rate.factor == 0:
        speed = "exact after one round" if rate.period == 1 else f"exact after {rate.period} rounds"
    elif rate.factor >= 1 - 1e-15:
        speed = "never agrees"
    else:
        speed = f"a round takes away {100 * rate.gap:.3g} %"
    return f"{speed}; a step is limited by {step.limit}"
