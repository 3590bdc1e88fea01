"""What a step of averaging costs: bytes, messages and seconds for a rank and at the busiest link.

The model: a message costs its overhead at the sender and at the receiver, the latency of its link passes once, ranks of
a node share the node's link to the others, and every link carries both directions at once:

`t = o max_i(out_i + in_i) + latency + max(bytes between / bandwidth between, bytes inside / bandwidth inside)`

Source: D. Culler et al., doi:10.1145/155332.155333 (LogP); R. Rabenseifner, doi:10.1007/978-3-540-24685-5_1
(allreduce).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import numpy as np

from hvd_gossip import specification
from hvd_gossip.graphs.schedules import Schedule, as_schedule, looked_at
from hvd_gossip.graphs.topology import Topology, integer, replicas, require_topology


@dataclass(frozen=True)
class Link:
    """A link: latency in seconds, bandwidth in bytes a second and direction, overhead in seconds for each message.

    Raises:
        ValueError: a value is negative or not finite, or the bandwidth is 0.
    """

    latency: float
    bandwidth: float
    overhead: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            fits = not isinstance(value, bool) and isinstance(value, Real) and 0 <= float(value) < math.inf
            if not fits or (name == "bandwidth" and value == 0):
                expected = "bytes a second, above 0" if name == "bandwidth" else "seconds, at least 0"
                raise ValueError(f"link: got {name} = {value!r}, expected a finite number of {expected}")


INSIDE = Link(latency=0.5e-6, bandwidth=20e9, overhead=0.5e-6)
BETWEEN = Link(latency=2e-6, bandwidth=12.5e9, overhead=0.5e-6)


@dataclass(frozen=True)
class Machine:
    """Ranks in nodes, numbered node by node, and the links inside a node and between nodes.

    The bandwidth inside is that of each rank, the one between nodes is shared by all ranks of a node. The default links
    are assumptions, to be replaced by those of the machine: shared memory of 20 GB/s, and a network of 100 Gb/s for
    each node.
    """

    ranks_per_node: int = 1
    inside: Link = INSIDE
    between: Link = BETWEEN

    def __post_init__(self) -> None:
        integer("machine", "ranks_per_node", self.ranks_per_node)
        for name in ("inside", "between"):
            if not isinstance(getattr(self, name), Link):
                raise ValueError(f"machine: got {name} = {getattr(self, name)!r}, expected a Link")


class Cost(NamedTuple):
    """One step: what the busiest rank sends, the bytes over the busiest link, the seconds, and what limits them."""

    bytes: float
    messages: float
    link_bytes: float
    link: str
    seconds: float
    limit: str


def links(texts: list[str]) -> dict[str, Link]:
    """Links from `inside:latency=…,bandwidth=…,overhead=…` and `between:…`; what is not told keeps its default.

    Example:
        >>> links(["between:bandwidth=25e9"])["between"].bandwidth
        25000000000.0
    """
    found, given = {"inside": INSIDE, "between": BETWEEN}, set[str]()
    for text in texts:
        name, options = specification.parse(text)
        specification.choose("link", name, found)
        if not options:
            raise ValueError(f"got link {text!r}: expected {name}:latency=…,bandwidth=…,overhead=…, any of them")
        if name in given:
            raise ValueError(f"got the link {name!r} twice: give all its values at once")
        given.add(name)
        for option in options:
            specification.choose(f"value of link {name!r}", option, vars(INSIDE))
        found[name] = Link(**{**vars(found[name]), **options})
    return found


def gossip_cost(topology: Topology, parameters: float, machine: Machine, wire_bytes: float = 4) -> Cost:
    """A step in which every rank sends all its parameters to each rank that hears it.

    Args:
        topology: the graph.
        parameters: how many each rank has.
        machine: nodes and links.
        wire_bytes: bytes of one parameter on the wire.

    Raises:
        ValueError: parameters or wire_bytes is not positive and finite.

    Example:
        >>> from hvd_gossip.graphs import ring
        >>> gossip_cost(ring(8), 1e6, Machine()).bytes
        8000000.0
    """
    require_topology(topology)
    size = size_of(parameters, wire_bytes)
    matrix = topology.whole().tocoo()
    others = matrix.row != matrix.col
    to, of = matrix.row[others], matrix.col[others]
    inside = of // machine.ranks_per_node == to // machine.ranks_per_node
    nodes = -(-topology.n // machine.ranks_per_node)

    def most(index: np.ndarray, length: int) -> float:
        return size * float(np.bincount(index, minlength=length).max(initial=0))

    near = max(most(of[inside], topology.n), most(to[inside], topology.n))
    far = max(most(ends[~inside] // machine.ranks_per_node, nodes) for ends in (of, to))
    sent = np.bincount(of, minlength=topology.n)
    handled = int((sent + np.bincount(to, minlength=topology.n)).max(initial=0))
    return step_cost(size * float(sent.max()), float(sent.max()), handled, near, far, machine)


def size_of(parameters: float, wire_bytes: float) -> float:
    """Bytes of a message.

    Raises:
        ValueError: parameters or wire_bytes is not positive and finite.
    """
    for name, value in (("parameters", parameters), ("wire_bytes", wire_bytes)):
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 < value < math.inf:
            raise ValueError(f"got {name} = {value!r}, expected a finite number above 0")
    return float(parameters * wire_bytes)


def step_cost(
    sent_bytes: float, messages: float, handled: float, near: float, far: float, machine: Machine, latencies: float = 1
) -> Cost:
    """Put the parts of a step together; `near` and `far` are the bytes over the busiest link of either kind."""
    used = [link for link, load in ((machine.inside, near), (machine.between, far)) if load]
    parts = {
        "message overhead": handled * max((link.overhead for link in used), default=0.0),
        "latency": latencies * max((link.latency for link in used), default=0.0),
        "bandwidth inside nodes": near / machine.inside.bandwidth,
        "bandwidth between nodes": far / machine.between.bandwidth,
    }
    bandwidth = max(parts["bandwidth inside nodes"], parts["bandwidth between nodes"])
    between = far / machine.between.bandwidth >= near / machine.inside.bandwidth
    return Cost(
        bytes=sent_bytes,
        messages=messages,
        link_bytes=far if between else near,
        link="between nodes" if between else "inside a node",
        seconds=parts["message overhead"] + parts["latency"] + bandwidth,
        limit=max(parts, key=lambda name: parts[name]) if used else "nothing is sent",
    )


def schedule_cost(
    schedule: Topology | Schedule, parameters: float, machine: Machine, wire_bytes: float = 4, epoch: int = 0
) -> Cost:
    """The mean step over a period, or over the first 32 rounds; the busiest link is that of the costliest round."""
    rounds, times = zip(*looked_at(as_schedule(schedule), epoch), strict=True)
    found = [gossip_cost(topology, parameters, machine, wire_bytes) for topology in rounds]
    costliest = max(found, key=lambda cost: cost.seconds)
    values = [(cost.bytes, cost.messages, cost.seconds) for cost in found]
    sent, messages, seconds = np.average(values, axis=0, weights=times).tolist()
    return costliest._replace(bytes=sent, messages=messages, seconds=seconds)


def ring_allreduce_cost(n: int, parameters: float, machine: Machine, wire_bytes: float = 4) -> Cost:
    r"""Reduce-scatter and allgather around a ring: `2 (n - 1)` messages of 1/n of the parameters.

    `t = 2 (n - 1) (latency + 2 o) + 2 (n - 1)/n bytes / bandwidth`.

    Example:
        >>> ring_allreduce_cost(4, 1e6, Machine()).bytes
        6000000.0
    """
    messages = 2.0 * (replicas("allreduce", n) - 1)
    sent = messages / n * size_of(parameters, wire_bytes)
    several = n > machine.ranks_per_node
    near = sent if machine.ranks_per_node > 1 or not several else 0.0
    return step_cost(sent, messages, 2 * messages, near, sent if several else 0.0, machine, latencies=messages)


def tree_allreduce_cost(n: int, parameters: float, machine: Machine, wire_bytes: float = 4) -> Cost:
    r"""Reduce up a binomial tree and broadcast down, first in the nodes and then between them, one step after another.

    `2 (ceil(log2 g) + ceil(log2 m))` steps of all parameters, g ranks on each of m nodes.

    Example:
        >>> tree_allreduce_cost(8, 1e6, Machine()).messages
        3.0
    """
    size = size_of(parameters, wire_bytes)
    inner = float((min(replicas("allreduce", n), machine.ranks_per_node) - 1).bit_length())
    outer = float((-(-n // machine.ranks_per_node) - 1).bit_length())
    depth, near, far = inner + outer, 2 * inner * size, 2 * outer * size
    cost = step_cost(depth * size, depth, 4 * depth, near, far, machine, latencies=2 * depth)
    # The levels follow each other: their times add up.
    slower = max(near / machine.inside.bandwidth, far / machine.between.bandwidth)
    both = near / machine.inside.bandwidth + far / machine.between.bandwidth
    return cost._replace(seconds=cost.seconds - slower + both)
