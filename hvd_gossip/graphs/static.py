"""Graphs that stay the same in every round.

Rows receive, rows sum to 1; every graph here has uniform weights 1/(degree + 1) and is doubly stochastic.
"""

from __future__ import annotations

from hvd_gossip.graphs.topology import Circulant, Topology, replicas


def ring(n: int) -> Topology:
    r"""Every replica hears the one before and the one after it.

    `W[i, i-1] = W[i, i] = W[i, i+1] = 1/3`; two replicas hear each other with weight 1/2, one hears nobody.
    Gap `(2/3)(1 - cos(2 pi / n))` for n >= 3.

    Args:
        n: number of replicas, at least 1.

    Raises:
        ValueError: n is not an integer of at least 1.

    Example:
        >>> ring(4).matrix().toarray()[0].round(3).tolist()
        [0.333, 0.333, 0.0, 0.333]

    Source: arXiv:1705.09056.
    """
    return Circulant("ring", n, (-1, 1))


def exponential(n: int) -> Topology:
    r"""Replica i hears i - 1, i - 2, i - 4, … (mod n): directed, degree `ceil(log2 n)`.

    `W[i, i - 2^t mod n] = 1/(ceil(log2 n) + 1)` for `0 <= t < ceil(log2 n)`.

    Args:
        n: number of replicas, at least 1.

    Raises:
        ValueError: n is not an integer of at least 1.

    Example:
        >>> exponential(6).row(0).sources.tolist()
        [2, 4, 5]

    Source: arXiv:2110.13363.
    """
    count = replicas("exponential", n)
    return Circulant("exponential", count, tuple(-(1 << t) for t in range((count - 1).bit_length())))


def complete(n: int) -> Topology:
    r"""Every replica hears every other: `W = 11^T/n`, one round averages exactly.

    Args:
        n: number of replicas, at least 1.

    Raises:
        ValueError: n is not an integer of at least 1.

    Example:
        >>> complete(4).row(2).sources.tolist()
        [0, 1, 3]
    """
    return Circulant("complete", n, tuple(range(1, replicas("complete", n))))
