"""Graphs that stay the same in every round and look the same from every rank.

Rows receive, rows sum to 1; every graph here has uniform weights 1/(degree + 1) and is doubly stochastic.
"""

from __future__ import annotations

from hvd_gossip.graphs.cayley import Cayley, Circulant
from hvd_gossip.graphs.registry import graph
from hvd_gossip.graphs.topology import Topology, boolean, integer, replicas
from hvd_gossip.specification import label


@graph
def ring(n: int, directed: bool = False) -> Topology:
    r"""Every replica hears the one before and the one after it, or the one before alone.

    `W[i, i-1] = W[i, i] = W[i, i+1] = 1/3`; two replicas hear each other with weight 1/2, one hears nobody. Gap
    `(2/3)(1 - cos(2 pi / n))` for n >= 3. Directed: `W[i, i-1] = W[i, i] = 1/2`, gap `1 - cos(pi / n)`.

    Args:
        n: number of replicas, at least 1.
        directed: one direction only.

    Raises:
        ValueError: n is not an integer of at least 1.

    Example:
        >>> ring(4).matrix().toarray()[0].round(3).tolist()
        [0.333, 0.333, 0.0, 0.333]

    Source: arXiv:1705.09056.
    """
    one_way = boolean("ring", "directed", directed)
    return Circulant(label("ring", directed=one_way or None), n, (-1,) if one_way else (-1, 1))


@graph
def ring_lattice(n: int, k: int) -> Topology:
    r"""Every replica hears its k nearest on a ring, k/2 on either side.

    `W[i, i + s] = 1/(k + 1)` for `|s| <= k/2`. Gap `1 - (1 + 2 sum_{s=1}^{k/2} cos(2 pi s / n))/(k + 1)` unless a
    later frequency has a larger modulus.

    Args:
        n: number of replicas, at least 1.
        k: neighbours on both sides together, even, less than n (networkx's convention).

    Raises:
        ValueError: k is odd, below 2, or not less than n.

    Example:
        >>> ring_lattice(8, k=4).row(0).sources.tolist()
        [1, 2, 6, 7]

    Source: arXiv:2509.12213 (Ada, our reading); networkx `watts_strogatz_graph(n, k, 0)`.
    """
    name = label("ring_lattice", k=k)
    n, k = replicas(name, n), integer(name, "k", k, 2)
    if k % 2:
        raise ValueError(
            f"graph {name!r}: got k = {k}: k counts the neighbours on both sides together, give {k - 1} or {k + 1}"
        )
    if k >= n:
        raise ValueError(f"graph {name!r}: got k = {k} for {n} replicas, expected less than n; use 'complete'")
    return Circulant(name, n, (shift for s in range(1, k // 2 + 1) for shift in (-s, s)))


@graph
def exponential(n: int, base: int = 2) -> Topology:
    r"""Replica i hears i - 1, i - b, i - b^2, … (mod n): directed, degree `ceil(log_b n)`.

    `W[i, i - b^t mod n] = 1/(ceil(log_b n) + 1)` for `0 <= t < ceil(log_b n)`.

    Args:
        n: number of replicas, at least 1.
        base: b, at least 2.

    Raises:
        ValueError: n is not an integer of at least 1, or base not one of at least 2.

    Example:
        >>> exponential(6).row(0).sources.tolist()
        [2, 4, 5]

    Source: arXiv:2110.13363.
    """
    name = label("exponential", base=None if base == 2 else base)
    return Circulant(name, n, [-power for power in powers(name, n, base)])


@graph
def symmetric_exponential(n: int, base: int = 2) -> Topology:
    r"""Replica i hears i ± 1, i ± b, i ± b^2, … (mod n), up to half way round: undirected.

    `W[i, i ± b^t mod n] = 1/(degree + 1)` for `b^t <= n/2`.

    Args:
        n: number of replicas, at least 1.
        base: b, at least 2.

    Raises:
        ValueError: n is not an integer of at least 1, or base not one of at least 2.

    Example:
        >>> symmetric_exponential(8).row(0).sources.tolist()
        [1, 2, 4, 6, 7]

    Source: arXiv:2110.13363 (the directed form).
    """
    name = label("symmetric_exponential", base=None if base == 2 else base)
    near = [power for power in powers(name, n, base) if 2 * power <= n]
    return Circulant(name, n, [sign * power for power in near for sign in (-1, 1)])


def powers(name: str, n: int, base: int) -> list[int]:
    """1, b, b², … below n, in integers."""
    n, base = replicas(name, n), integer(name, "base", base, 2)
    found = [1]
    while found[-1] * base < n:
        found.append(found[-1] * base)
    return found if n > 1 else []


@graph
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
    return Circulant("complete", n, range(1, replicas("complete", n)))


@graph
def hypercube(n: int) -> Topology:
    r"""Replica i hears those whose number differs from i in one binary digit.

    `W[i, i xor 2^t] = 1/(log2 n + 1)`; gap `2/(log2 n + 1)` from n = 4 on.

    Args:
        n: number of replicas, a power of two.

    Raises:
        ValueError: n is not a power of two.

    Example:
        >>> hypercube(8).row(5).sources.tolist()
        [1, 4, 7]

    Source: arXiv:2206.03093 (as a graph for training).
    """
    n = replicas("hypercube", n)
    dimension = n.bit_length() - 1
    if n != 1 << dimension:
        raise ValueError(
            f"graph 'hypercube': got n = {n}, expected a power of two: {1 << dimension} or {2 << dimension}; "
            "hyper_hypercube and base_k take any n"
        )
    units = [tuple(int(axis == other) for other in range(dimension)) for axis in range(dimension)]
    return Cayley("hypercube", (2,) * dimension or (1,), dict.fromkeys(units, 1 / (dimension + 1)))
