"""Static random graphs: functions of their seed alone, equal on every rank without communication.

Rows receive, rows sum to 1; metropolis weights, hence W is symmetric and doubly stochastic.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hvd_gossip.graphs import limits
from hvd_gossip.graphs.edge_list import EdgeList
from hvd_gossip.graphs.registry import graph
from hvd_gossip.graphs.seeds import generator
from hvd_gossip.graphs.topology import Topology, integer, number, replicas
from hvd_gossip.specification import label

CHECKED = 20_000
"""Up to so many replicas a random graph is drawn again until it is connected; above, a rank would wait too long."""
ATTEMPTS = 100
TRIES = 200
"""So often edges that do not fit are drawn again before all are."""

Draw = Callable[[np.random.RandomState], np.ndarray]
"""Edges of shape [m, 2], each once, the smaller end first."""


@graph
def random_regular(n: int, d: int, seed: int = 0) -> Topology:
    r"""A random graph without loops or double edges in which every replica hears d others.

    `W[i, j] = 1/(d + 1)` on edges; for d >= 3 an expander with high probability, gap about `1 - 2 sqrt(d - 1)/(d + 1)`.

    Args:
        n: number of replicas.
        d: degree, less than n; n d must be even.
        seed: which graph.

    Raises:
        ValueError: n d is odd, d >= n, or no connected graph of this degree exists.

    Example:
        >>> len(random_regular(10, 3, seed=1).row(4).sources)
        3

    Source: A. Steger, N. Wormald, doi:10.1017/S0963548399003867; networkx `random_regular_graph`.
    """
    name = label("random_regular", d=d, seed=seed)
    n, d = replicas(name, n), integer(name, "d", d)
    if d >= n or n * d % 2:
        raise ValueError(f"graph {name!r}: got d = {d} for {n} replicas, expected less than n, and n d even")
    if d == 1 and n > 2:
        raise ValueError(f"graph {name!r}: pairs alone are not connected, expected d of at least 2 for {n} replicas")
    return drawn(name, n, seed, lambda random: regular_edges(n, d, random))


def regular_edges(n: int, d: int, random: np.random.RandomState) -> np.ndarray:
    """Pair the ends of edges at random; what does not fit is paired again, together with as many edges that did."""
    if d == 2:
        # Two neighbours each make rings, and hardly ever a single one: the connected ones are one ring in any order.
        order = random.permutation(n)
        return np.sort(np.stack([order, np.roll(order, 1)], axis=1), axis=1)
    if 2 * d > n:
        return complement(n, regular_edges(n, n - 1 - d, random))
    good, ends = np.empty(0, dtype=np.int64), np.repeat(np.arange(n), d)
    while len(ends):
        random.shuffle(ends)
        good, refused = add_edges(n, good, ends[::2], ends[1::2])
        ends = np.concatenate([ends[::2][refused], ends[1::2][refused]])
        again = np.unique(random.randint(0, max(1, len(good)), size=min(len(good), len(ends) // 2)))
        ends = np.concatenate([ends, good[again] // n, good[again] % n])
        good = np.delete(good, again)
    return np.stack([good // n, good % n], axis=1)


def complement(n: int, edges: np.ndarray) -> np.ndarray:
    """All edges that are not there."""
    absent = np.triu(np.ones((n, n), dtype=bool), k=1)
    absent[edges[:, 0], edges[:, 1]] = False
    return np.argwhere(absent)


def add_edges(n: int, good: np.ndarray, one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Edges, as ascending numbers `smaller n + larger`, with those new ones that are no loops and stand only once.

    Returns:
        All edges, and a bool array that tells which new ones were refused.
    """
    new = np.minimum(one, other) * n + np.maximum(one, other)
    ordered = np.sort(new)
    refused = (one == other) | np.isin(new, ordered[1:][ordered[1:] == ordered[:-1]])
    if len(good):
        refused |= np.append(good, -1)[np.searchsorted(good, new)] == new
    return np.sort(np.concatenate([good, new[~refused]])), refused


@graph
def watts_strogatz(n: int, k: int, p: float = 0.1, seed: int = 0) -> Topology:
    r"""A ring lattice in which the far end of each edge is moved to a random replica with probability p.

    `W[i, j] = 1/(1 + max(d_i, d_j))` on edges; n k/2 edges whatever p.

    Args:
        n: number of replicas.
        k: neighbours on both sides together before moving, even, less than n.
        p: probability that an edge is moved, in [0, 1].
        seed: which graph.

    Raises:
        ValueError: k is odd or not less than n, p is not in [0, 1], or no connected graph was found.

    Example:
        >>> int(watts_strogatz(12, k=4, p=0.2, seed=1).degrees()[0].sum())
        48

    Source: D. Watts, S. Strogatz, doi:10.1038/30918; networkx `watts_strogatz_graph`.
    """
    name = label("watts_strogatz", k=k, p=p, seed=seed)
    n, k = replicas(name, n), integer(name, "k", k, 2)
    if k % 2 or k >= n:
        raise ValueError(f"graph {name!r}: got k = {k} for {n} replicas, expected an even number less than n")
    p = number(name, "p", p, lambda p: 0 <= p <= 1, "a probability from 0 to 1")
    return drawn(name, n, seed, lambda random: rewired_edges(n, k, p, random))


def rewired_edges(n: int, k: int, p: float, random: np.random.RandomState) -> np.ndarray:
    """Move far ends at random; an end that meets its own edge's start or another edge is drawn again."""
    starts = np.repeat(np.arange(n), k // 2)
    ends = (starts + np.tile(np.arange(1, k // 2 + 1), n)) % n
    moving = (random.random_sample(len(starts)) < p) & (k < n - 1)
    fixed, _ = add_edges(n, np.empty(0, dtype=np.int64), starts[~moving], ends[~moving])
    while True:
        good, left = fixed, starts[moving]
        for _ in range(TRIES):
            good, refused = add_edges(n, good, left, random.randint(0, n, size=len(left), dtype=np.int64))
            left = left[refused]
            if not len(left):
                return np.stack([good // n, good % n], axis=1)


def drawn(name: str, n: int, seed: int, draw: Draw) -> Topology:
    """The first of the seed's graphs that is connected.

    Raises:
        ValueError: none of the first hundred is.
    """

    def topology(attempt: int) -> Topology:
        edges = draw(generator(name.partition(":")[0], seed, attempt))
        return EdgeList(name, n, edges[:, 0], edges[:, 1])

    found = limits.first_connected(topology, ATTEMPTS, CHECKED)
    if found is None:
        raise ValueError(
            f"graph {name!r}: none of {ATTEMPTS} drawn graphs of {n} replicas is connected: ask for more edges"
        )
    return found
