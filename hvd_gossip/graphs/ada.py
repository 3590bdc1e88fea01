"""Ada: a ring lattice that starts dense and thins out while training goes on.

Source: arXiv:2509.12213; the formula of k and how neighbours are counted are our reading.
"""

from __future__ import annotations

from functools import lru_cache

from hvd_gossip import specification
from hvd_gossip.graphs.registry import graph
from hvd_gossip.graphs.schedules import Varying
from hvd_gossip.graphs.static import complete, ring_lattice
from hvd_gossip.graphs.topology import Topology, integer, number, replicas

CLOCKS = ("epoch", "round")


@graph
def ada(n: int, k0: int | None = None, gamma: float | None = None, k_min: int = 2, by: str = "epoch") -> Varying:
    r"""A ring lattice in which each replica hears k others, and k falls with the epoch, or with the round.

    `k(e) = max(k0 - int(gamma e), k_min)`; odd values are rounded down to even, values of n - 1 or more mean the
    complete graph.

    Args:
        n: number of replicas, at least 1.
        k0: neighbours at the start, on both sides together (default: n/9, as 112 of 1008 replicas; at least k_min).
        gamma: neighbours lost for each epoch or round (default: k_min is reached after 100 of them).
        k_min: neighbours at the end, at least 2.
        by: "epoch" or "round".

    Raises:
        ValueError: k0 is below k_min, k_min below 2, gamma negative, or the clock unknown.

    Example:
        >>> [ada_neighbours(96, 10, 0.02, 2, epoch) for epoch in (0, 49, 50, 100, 400, 1000)]
        [10, 10, 8, 8, 2, 2]

    Source: arXiv:2509.12213; our reading.
    """
    name = specification.label(
        "ada", k0=k0, gamma=gamma, k_min=None if k_min == 2 else k_min, by=None if by == "epoch" else by
    )
    n, k_min = replicas(name, n), integer(name, "k_min", k_min, 2)
    specification.choose("clock of ada", by, CLOCKS)
    start = max(n // 9, k_min) if k0 is None else integer(name, "k0", k0)
    rate = (start - k_min) / 100 if gamma is None else gamma
    if start < k_min:
        raise ValueError(f"graph {name!r}: got k0 = {start}, expected at least k_min = {k_min}")
    rate = number(name, "gamma", rate, lambda rate: 0 <= rate < float("inf"), "a number of at least 0")

    @lru_cache(maxsize=4)
    def lattice(k: int) -> Topology:
        return complete(n) if k >= n - 1 else ring_lattice(n, k)

    return Varying(
        name,
        n,
        lambda round, epoch: lattice(ada_neighbours(n, start, rate, k_min, epoch if by == "epoch" else round)),
        degree=ada_neighbours(n, start, rate, k_min, 0),
    )


def ada_neighbours(n: int, k0: int, gamma: float, k_min: int, time: int) -> int:
    """K at an epoch or round: even and below n - 1, or n - 1."""
    k = max(k0 - int(gamma * time), k_min)
    k -= k % 2 if k < n - 1 else 0
    return min(k, n - 1)
