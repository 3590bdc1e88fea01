"""What replicas drift to under W when its columns do not sum to 1, and whether they agree at all."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph, linalg

from hvd_gossip.graphs.matrix_topology import MatrixTopology
from hvd_gossip.graphs.schedules import Schedule, sequence
from hvd_gossip.graphs.topology import Topology, require_topology

POWERS = 5_000
"""Rounds after which the limit is solved for instead."""
LARGEST = 20_000
"""Above so many replicas the limit is not computed for a warning."""
LARGEST_PERIOD = 1_000
"""Above so many replicas it is only looked at who hears whom in any round of a period, not at their product."""


def limit_weights(topology: Topology) -> np.ndarray:
    r"""How much each replica counts in the mean that all of them drift to: `pi W = pi`, `sum pi = 1`.

    `W^t -> 1 pi`: x tends to `sum_j pi_j x_j(0)`. W is doubly stochastic exactly where pi is even, 1/n each.

    Returns:
        A float64 array of shape [n].

    Raises:
        ValueError: the replicas do not all come to one value.

    Example:
        >>> from hvd_gossip.graphs import MatrixTopology
        >>> limit_weights(MatrixTopology("drift", [[0.5, 0.5], [0.25, 0.75]])).round(3).tolist()
        [0.333, 0.667]

    Source: D. Levin, Y. Peres, Markov Chains and Mixing Times, section 1.5 (the stationary distribution).
    """
    require_topology(topology)
    require_agreement(topology)
    matrix = topology.whole()
    counts = np.full(topology.n, 1 / topology.n)
    for _ in range(POWERS):
        # (I + W)/2 has the same limit and no eigenvalue near -1.
        following = (counts + matrix.T @ counts) / 2
        if np.abs(following - counts).max() <= 1e-16:
            return following / following.sum()
        counts = following
    balance = (matrix.T - sp.eye_array(topology.n)).tolil()
    balance[topology.n - 1, :] = 1.0
    right = np.zeros(topology.n)
    right[-1] = 1.0
    return np.maximum(np.atleast_1d(linalg.spsolve(balance.tocsc(), right)), 0.0)


def known_limit(topology: Topology) -> np.ndarray | None:
    """The limit weights, or None where there are none or they take too long."""
    if topology.n > LARGEST or len(closed_classes(topology)) > 1:
        return None
    return limit_weights(topology)


def closed_classes(topology: Topology) -> list[int]:
    """One replica of each group that hears nobody outside of itself: replicas come to one value if there is one."""
    matrix = topology.whole()
    count, group = csgraph.connected_components(matrix, directed=True, connection="strong")
    edges = matrix.tocoo()
    hears_outside = np.zeros(count, dtype=bool)
    hears_outside[group[edges.row[group[edges.row] != group[edges.col]]]] = True
    return [int(np.argmax(group == index)) for index in np.flatnonzero(~hears_outside)]


def require_agreement(topology: Topology) -> None:
    """Refuse a graph that never brings all replicas to one value.

    Raises:
        ValueError: two groups never hear of each other.
    """
    roots = closed_classes(topology)
    if len(roots) > 1:
        raise ValueError(
            f"graph {topology.name!r} is not connected: replicas {roots[0]} and {roots[1]} never hear of each other, "
            f"not even through others ({len(roots)} separate groups); every replica must be reached"
        )
    if topology.n > 1 and (period := turns(topology, roots[0])) != 1:
        raise ValueError(
            f"graph {topology.name!r}: replicas only take turns, values come round after {period} rounds and never "
            "agree; weights=lazy keeps a part of each replica's own"
        )


def first_connected(draw: Callable[[int], Topology], attempts: int, largest: int) -> Topology | None:
    """The first graph drawn that brings all replicas to one value; above `largest` replicas it is not looked at."""
    drawn = (draw(attempt) for attempt in range(attempts))
    return next((found for found in drawn if found.n > largest or len(closed_classes(found)) == 1), None)


def turns(topology: Topology, root: int) -> int:
    """After how many rounds values come back to where they were, 1 where replicas agree; all hear `root` in the end."""
    matrix = topology.whole()
    if (matrix.diagonal() > 0).any():
        return 1
    level = csgraph.shortest_path(matrix, unweighted=True, indices=root)
    edges = matrix.tocoo()
    there = np.isfinite(level[edges.row]) & np.isfinite(level[edges.col])
    loops = (level[edges.row] + 1 - level[edges.col])[there]
    return int(np.gcd.reduce(loops.astype(np.int64)))


def examine(schedule: Schedule) -> None:
    """See to it that replicas agree under a schedule whose period is known, and tell where their mean is not kept.

    Raises:
        ValueError: two groups never hear of each other, or replicas only take turns.

    Warns:
        UserWarning: W is not doubly stochastic; says what the replicas will drift to.
    """
    if schedule.n > LARGEST:
        return
    rounds = sequence(schedule)
    found = None if schedule.period is None else whole_period(schedule, rounds)
    if found is not None:
        require_agreement(found)
    odd = next((topology for topology in rounds if not topology.doubly_stochastic), None)
    if odd is not None:
        where = "" if schedule.period == 1 else f" in {odd.name!r}"
        warnings.warn(drift(found or odd, schedule.name, where), stacklevel=3)


def whole_period(schedule: Schedule, rounds: list[Topology]) -> Topology:
    """`W(T-1) … W(1) W(0)` of a period T; for many replicas their mean, which joins them if the product does."""
    if len(rounds) == 1:
        return rounds[0]
    matrices = {id(topology): topology.whole() for topology in rounds}
    if schedule.n > LARGEST_PERIOD:
        total = sum(matrices.values(), sp.csr_array((schedule.n, schedule.n)))
        return MatrixTopology(schedule.name, total / len(matrices))
    product = np.eye(schedule.n)
    for topology in rounds:
        product = matrices[id(topology)] @ product
    return MatrixTopology(schedule.name, product / product.sum(axis=1, keepdims=True))


def checked(topology: Topology) -> Topology:
    """The topology, after a warning if its W is not doubly stochastic.

    Warns:
        UserWarning: says what the replicas will drift to.
    """
    if not topology.doubly_stochastic:
        warnings.warn(drift(topology, topology.name), stacklevel=3)
    return topology


def drift(topology: Topology, name: str, where: str = "") -> str:
    """What the columns of W do to the mean, in words."""
    start = f"graph {name!r}: W is not doubly stochastic{where}, so replicas do not drift to their even mean"
    advice = "weights=metropolis keeps the even mean where every edge has both directions"
    counts = known_limit(topology)
    if counts is None:
        return f"{start}; {advice}"
    most, least = int(np.argmax(counts)), int(np.argmin(counts))
    return (
        f"{start} but to one in which replica {most} counts {counts[most]:.3g} and replica {least} {counts[least]:.3g} "
        f"(even: {1 / topology.n:.3g}); {advice}"
    )
