"""Graphs made of graphs: groups with a graph between them, at once or in turn, and a global average now and then.

Ranks of a group are consecutive, as launchers number the ranks of a node. Rows receive; W is doubly stochastic where
the graph between the groups is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from functools import cache
from math import isqrt

import numpy as np
import scipy.sparse as sp

from hvd_gossip.graphs.cayley import Cayley
from hvd_gossip.graphs.registry import graph, static
from hvd_gossip.graphs.schedules import Varying
from hvd_gossip.graphs.seeds import generator
from hvd_gossip.graphs.static import complete
from hvd_gossip.graphs.topology import Row, Topology, integer, replicas
from hvd_gossip.specification import label

Factory = Callable[[int], Topology]


class Hierarchical(Topology):
    r"""Groups in which everybody hears everybody, joined by a graph between ranks of equal position.

    `W = a (I x 11^T/g) + (1 - a) (W_outer x I)` with `a = g/(g + d + 1)`, g ranks in a group and d the largest degree
    of the outer graph: inner and outer neighbours then weigh the same where the outer graph is uniform and regular.

    Args:
        name: what the user called it.
        outer: the graph between the groups.
        size: g, ranks in a group.
        inner_weight: a, from 0 to 1 (default: as above).
    """

    def __init__(self, name: str, outer: Topology, size: int, inner_weight: float | None = None) -> None:
        super().__init__(name, outer.n * size)
        self.outer, self.size = outer, size
        self.inner_weight = size / (size + outer.degree + 1) if inner_weight is None else inner_weight

    def row(self, rank: int) -> Row:
        self.check_rank(rank)
        group, position = divmod(rank, self.size)
        row = self.outer.row(group)
        members = np.arange(group * self.size, (group + 1) * self.size)
        near = np.delete(members, position) if self.inner_weight else members[:0]
        sources = np.concatenate([near, row.sources * self.size + position])
        each = self.inner_weight / self.size
        outside = (1 - self.inner_weight) * row.source_weights
        weights = np.concatenate([np.full(len(near), each), outside])
        order = np.argsort(sources)
        destinations = np.sort(np.concatenate([near, row.destinations * self.size + position]))
        self_weight = each + (1 - self.inner_weight) * row.self_weight
        return Row(self_weight, sources[order], weights[order], destinations)

    @property
    def edges(self) -> Hashable:
        return ("hierarchical", self.outer.edges, self.size, self.inner_weight > 0)

    def matrix(self) -> sp.csr_array:
        inner = sp.kron(sp.eye_array(self.outer.n), np.full((self.size, self.size), 1 / self.size))
        outer = sp.kron(self.outer.matrix(), sp.eye_array(self.size))
        matrix = sp.csr_array(self.inner_weight * inner + (1 - self.inner_weight) * outer)
        matrix.eliminate_zeros()
        return matrix

    def entries(self) -> int:
        return (self.outer.entries() + (self.n if self.inner_weight else 0)) * self.size

    def degrees_of(self, ranks: np.ndarray) -> np.ndarray:
        return self.outer.degrees_of(ranks // self.size) + (self.size - 1 if self.inner_weight else 0)

    def degrees(self) -> tuple[np.ndarray, np.ndarray]:
        inside = self.size - 1 if self.inner_weight else 0
        hears, heard_by = self.outer.degrees()
        return np.repeat(hears + inside, self.size), np.repeat(heard_by + inside, self.size)

    @property
    def symmetric(self) -> bool:
        return self.outer.symmetric

    @property
    def doubly_stochastic(self) -> bool:
        return self.outer.doubly_stochastic


@graph
def hierarchical(n: int, groups: int | None = None, outer: str | Factory = "ring", seed: int = 0) -> Topology:
    r"""Groups of consecutive ranks, complete inside, with any static graph between ranks of equal position.

    `W = a (I x 11^T/g) + (1 - a) (W_outer x I)`, see `Hierarchical`.

    Args:
        n: number of replicas.
        groups: number of groups, a divisor of n (default: the divisor nearest to the square root from above).
        outer: the graph between groups: a short form such as "ring" or "ring_lattice:k=4", or a function of the number
            of groups.

    The seed is for a random graph between the groups.

    Raises:
        ValueError: groups does not divide n, or outer is unknown or fits no so many groups.

    Example:
        >>> hierarchical(12, groups=3).row(0).sources.tolist()
        [1, 2, 3, 4, 8]

    Source: arXiv:1907.05701 (learners in groups); the weights are our own.
    """
    return Hierarchical(*grouped("hierarchical", n, groups, outer, seed))


@graph
def alternating(n: int, groups: int | None = None, outer: str | Factory = "exponential", seed: int = 0) -> Varying:
    r"""Complete inside groups of consecutive ranks, then a graph between ranks of equal position, in turn.

    `W(0) = I x 11^T/g`, `W(1) = W_outer x I`, g ranks in a group; period 2.

    Args:
        n: number of replicas.
        groups: number of groups, a divisor of n (default: the divisor nearest to the square root from above).
        outer: the static graph between groups, as for `hierarchical`.

    The seed is for a random graph between the groups.

    Raises:
        ValueError: groups does not divide n, or outer is unknown or fits no so many groups.

    Example:
        >>> rounds = alternating(12, groups=4)
        >>> rounds(0).row(0).sources.tolist(), rounds(1).row(0).sources.tolist()
        ([1, 2], [6, 9])

    Source: arXiv:2410.11998 (alternating over nodes).
    """
    name, between, size = grouped("alternating", n, groups, outer, seed)
    inside = Cayley(f"{name} inside", (between.n, size), {(0, shift): 1 / size for shift in range(1, size)})
    rounds = (inside, Hierarchical(f"{name} between", between, size, inner_weight=0.0))
    degree = max(topology.degree for topology in rounds)
    return Varying(name, n, lambda round, epoch: rounds[round], period=2, degree=degree)


@graph
def periodic(n: int, every: int = 10, graph: str | Factory = "exponential", seed: int = 0) -> Varying:
    r"""A graph, and the exact average of all replicas in every so many rounds.

    `W(t) = 11^T/n` for `(t + 1) mod H = 0`, W of the graph otherwise.

    Args:
        n: number of replicas.
        every: H, at least 1.
        graph: the static graph of the other rounds, as for `hierarchical`.

    Raises:
        ValueError: every is not an integer of at least 1, or the graph is unknown.

    Example:
        >>> [periodic(8, every=3)(round).name for round in range(4)]
        ['exponential', 'exponential', 'complete', 'exponential']

    Source: arXiv:2105.09080 (Gossip-PGA).
    """
    name = label("periodic", every=every, graph=called("periodic", "graph", graph))
    n, every = replicas(name, n), integer(name, "every", every)
    local, everyone = inner(name, graph, n, "replicas", seed), cache(lambda: complete(n))
    name += seed_of(local)
    return Varying(
        name,
        n,
        lambda round, epoch: everyone() if (round + 1) % every == 0 else local,
        period=every,
        degree=n - 1,
    )


def grouped(kind: str, n: int, groups: int | None, outer: str | Factory, seed: int) -> tuple[str, Topology, int]:
    """The name of a graph of groups, the graph between them, and how many ranks a group has.

    Raises:
        ValueError: groups does not divide n, or outer is unknown or fits no so many groups.
    """
    name = label(kind, groups=groups, outer=called(kind, "outer", outer))
    n, groups = split(name, n, groups)
    between = inner(name, outer, groups, "groups", seed)
    return name + seed_of(between), between, n // groups


def called(name: str, option: str, graph: str | Factory) -> str:
    """What a graph within a graph is called.

    Raises:
        ValueError: it is neither a text nor a function.
    """
    if isinstance(graph, str):
        return graph
    if not callable(graph):
        text = label(name, **{option: graph})
        raise ValueError(f"graph {text!r}: expected the short form of a graph, or a function of n")
    return getattr(graph, "__name__", type(graph).__name__)


def inner(name: str, graph: str | Factory, n: int, what: str, seed: int) -> Topology:
    """The graph within a graph.

    Raises:
        ValueError: it is unknown, changes from round to round, or is made for another number.
    """
    generator(name, seed)
    found = static(graph, n, seed) if isinstance(graph, str) else graph(n)
    if not isinstance(found, Topology) or found.n != n:
        raise ValueError(f"graph {name!r}: got {found!r} within it, expected a Topology of {n} {what}")
    return found


def seed_of(topology: Topology) -> str:
    """The seed of a random graph within a graph, as a further option of its name."""
    found = re.search(r"seed=\d+", topology.name)
    return f",{found[0]}" if found else ""


def split(name: str, n: int, groups: int | None) -> tuple[int, int]:
    """n, and into how many groups.

    Raises:
        ValueError: the groups would be of different sizes.
    """
    n = replicas(name, n)
    if groups is None:
        groups = next(number for number in range(isqrt(n - 1) + 1 if n > 1 else 1, n + 1) if n % number == 0)
    elif n % integer(name, "groups", groups):
        divisors = ", ".join(str(number) for number in range(1, n + 1) if n % number == 0)
        raise ValueError(f"graph {name!r}: {n} replicas make no {groups} equal groups, expected one of {divisors}")
    return n, groups
