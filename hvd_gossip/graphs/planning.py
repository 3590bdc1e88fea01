"""Which graph for this machine and this many replicas: graphs ranked by the time they need to a given consensus."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple

from hvd_gossip import specification
from hvd_gossip.graphs.consensus import Rate, check_epsilon, consensus_rate, rounds_to_consensus
from hvd_gossip.graphs.cost import Cost, Link, Machine, ring_allreduce_cost, schedule_cost, tree_allreduce_cost
from hvd_gossip.graphs.registry import schedule
from hvd_gossip.graphs.schedules import looked_at
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
DRIFTS = "; does not keep the mean"


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
    for name in links or {}:
        specification.choose("link", name, ("inside", "between"))
    machine = Machine(ranks_per_node, **(links or {}))
    if isinstance(graphs, str):
        graphs = (graphs,)
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
    exact = Rate(0.0, "exact", decay=(0.0,) if n > 1 else ())
    rounds = min(1, n - 1)
    ring = ring_allreduce_cost(n, parameters, machine, wire_bytes)
    tree = tree_allreduce_cost(n, parameters, machine, wire_bytes)
    return [
        Choice("allreduce (ring)", min(1, n - 1), exact, rounds, ring, rounds * ring.seconds, reason(exact, ring)),
        Choice("allreduce (tree)", int(tree.messages), exact, rounds, tree, rounds * tree.seconds, reason(exact, tree)),
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
    rate = consensus_rate(found)
    rounds = rounds_to_consensus(rate, epsilon)
    step = schedule_cost(found, parameters, machine, wire_bytes)
    rounds_seen = [topology for topology, _ in looked_at(found)]
    degree = max(topology.degree for topology in rounds_seen)
    why = reason(rate, step) + ("" if all(one.doubly_stochastic for one in rounds_seen) else DRIFTS)
    return Choice(text, degree, rate, rounds, step, rounds * step.seconds, why)


def reason(rate: Rate, step: Cost) -> str:
    """Why it takes so long, in words."""
    if not step.messages:
        return "a replica alone has nobody to agree with" if rate.factor == 0 else "never agrees: nothing is sent"
    if rate.factor == 0:
        speed = "exact after one round" if len(rate.decay) == 1 else f"exact after {len(rate.decay)} rounds"
    elif rate.factor >= 1 - 1e-15:
        speed = "never agrees"
    else:
        speed = f"a round takes away {100 * rate.gap:.3g} %"
    return f"{speed}; a step is limited by {step.limit}"
