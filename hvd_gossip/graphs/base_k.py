"""Base-(k+1) graphs: at most k neighbours in each round, exact averages after few rounds, for every n.

Source: arXiv:2305.11420.
"""

from __future__ import annotations

from functools import lru_cache

from hvd_gossip.graphs.blocks import Block, HandOver, Round, averages, factor_rounds, sequence
from hvd_gossip.graphs.registry import graph
from hvd_gossip.graphs.schedules import Varying
from hvd_gossip.graphs.topology import integer, replicas
from hvd_gossip.specification import label


@graph
def hyper_hypercube(n: int, k: int | None = None) -> Varying:
    r"""A hypercube with digits of any size: one round for each factor of n, exact after all of them.

    With `n = f_1 f_2 …`, round l averages the f_l ranks that differ in digit l alone, `W[i, j] = 1/f_l`.

    Args:
        n: number of replicas.
        k: most neighbours in a round; factors are at most k + 1, and as few as possible (default: prime factors).

    Raises:
        ValueError: n has a prime factor above k + 1.

    Example:
        >>> hyper_hypercube(12)(round=2).row(0).sources.tolist()
        [4, 8]

    Source: arXiv:2305.11420.
    """
    name = label("hyper_hypercube", k=k)
    n = replicas(name, n)
    largest = max(prime_factors(n), default=1)
    if k is not None and integer(name, "k", k) + 1 < largest:
        raise ValueError(
            f"graph {name!r}: {n} replicas have the prime factor {largest}: expected k of at least {largest - 1}, or "
            "use base_k, which fits any number"
        )
    factors = prime_factors(n) if k is None else fewest_factors(n, k + 1)
    return sequence(name, n, factor_rounds(n, factors))


@graph
def simple_base(n: int, k: int = 1) -> Varying:
    r"""Split n into parts that are powers of k + 1, average inside parts, hand over, average again: exact.

    `n = sum_l a_l (k+1)^{p_l}`, `1 <= a_l <= k`; at most `2 log_{k+1}(n) + 2` rounds, at most k neighbours in each.
    Exact when begun at a multiple of the period; begun at any other round, within two periods.

    Args:
        n: number of replicas.
        k: most neighbours in a round, at least 1.

    Raises:
        ValueError: k is not an integer of at least 1.

    Example:
        >>> simple_base(7, k=1).period
        5

    Source: arXiv:2305.11420 (simple base-(k+1) graph).
    """
    name = label("simple_base", k=k)
    n = replicas(name, n)
    return sequence(name, n, simple_base_rounds(n, integer(name, "k", k)))


@graph
def base_k(n: int, k: int = 1) -> Varying:
    r"""Base-(k+1) graph: exact averages after few rounds for every n, at most k neighbours in each.

    `n = p q`, p the product of all prime factors up to k + 1: simple base graphs of q ranks side by side, then a
    hyper-hypercube over the p of them; or the simple base graph of n where that has no more rounds. Exact when begun
    at a multiple of the period; begun at any other round, within two periods.

    Args:
        n: number of replicas.
        k: most neighbours in a round, at least 1.

    Raises:
        ValueError: k is not an integer of at least 1.

    Example:
        >>> [base_k(n, k=2).period for n in (12, 24, 48, 96)]
        [3, 4, 5, 6]

    Source: arXiv:2305.11420.
    """
    name = label("base_k", k=k)
    n, k = replicas(name, n), integer(name, "k", k)
    smooth = 1
    for factor in prime_factors(n):
        smooth *= factor if factor <= k + 1 else 1
    rough = n // smooth
    simple = simple_base_rounds(n, k)
    split = simple_base_rounds(rough, k) + factor_rounds(n, fewest_factors(smooth, k + 1), stride=rough)
    return sequence(name, n, simple if len(simple) <= len(split) else split)


def prime_factors(n: int) -> list[int]:
    """Ascending, with repetitions."""
    found, factor = [], 2
    while factor * factor <= n:
        while n % factor == 0:
            found.append(factor)
            n //= factor
        factor += 1
    return found + [n] * (n > 1)


@lru_cache(maxsize=4096)
def _fewest(n: int, largest: int) -> tuple[int, ...] | None:
    if n == 1:
        return ()
    tails = ((f, _fewest(n // f, largest)) for f in range(min(largest, n), 1, -1) if n % f == 0)
    found = [(f, *tail) for f, tail in tails if tail is not None]
    return min(found, key=len, default=None)


def fewest_factors(n: int, largest: int) -> list[int]:
    """The shortest list of factors up to `largest` that multiply to n, whose prime factors are no larger."""
    factors = _fewest(n, largest)
    if factors is None:
        raise ValueError(f"{n} has a prime factor above {largest}")
    return list(factors)


def digits(n: int, base: int) -> list[tuple[int, int]]:
    """The digits of n that are not 0, with their powers, highest first."""
    found, power = [], 0
    while n:
        if n % base:
            found.append((n % base, power))
        n, power = n // base, power + 1
    return found[::-1]


def simple_base_rounds(n: int, k: int) -> list[Round]:
    """The rounds of the simple base-(k+1) graph."""
    if max(prime_factors(n), default=1) <= k + 1:
        return factor_rounds(n, fewest_factors(n, k + 1))
    rounds: list[list[Block]] = []

    def add(first: int, blocks: list[Block]) -> None:
        for number, block in enumerate(blocks, first):
            rounds.extend([] for _ in range(number + 1 - len(rounds)))
            rounds[number].append(block)

    parts = digits(n, k + 1)
    sizes = [count * (k + 1) ** power for count, power in parts]
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    for begin, size in zip(starts, sizes, strict=True):
        add(0, averages(begin, size, fewest_factors(size, k + 1)))
    averaged = len(fewest_factors(sizes[0], k + 1))
    for index, ((count, power), begin, size) in enumerate(zip(parts, starts, sizes, strict=True)):
        if rest := n - begin - size:
            # The last part is even once all earlier ones have handed over to it; the others average once more.
            hand_over = HandOver(begin, size // count, count, rest, size / count / (size + rest))
            add(averaged + index, [hand_over, *averages(begin, size, [k + 1] * power)])
    return [Round(n, tuple(blocks)) for blocks in rounds]
