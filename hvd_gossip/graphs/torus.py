"""Grids closed in every direction.

Rows receive, rows sum to 1; W is symmetric and doubly stochastic.
"""

from __future__ import annotations

import math
from itertools import count, product, takewhile

from hvd_gossip.graphs.cayley import Cayley
from hvd_gossip.graphs.registry import graph
from hvd_gossip.graphs.topology import Topology, integer, replicas
from hvd_gossip.specification import label


@graph
def torus(n: int, shape: str | tuple[int, ...] | None = None, dimensions: int = 2) -> Topology:
    r"""A grid closed in every direction: each replica hears the two next to it along every dimension.

    `W[i, i ± e_a] = 1/(2 D + 1)` for the D dimensions longer than 1; along a dimension of length 2 both neighbours
    are the same replica and its weight is doubled.

    Args:
        n: number of replicas.
        shape: lengths of the dimensions, as (4, 6) or "4x6" (default: the most even shape).
        dimensions: how many, where no shape is given.

    Raises:
        ValueError: the shape does not multiply to n, or n has no factors for an even one.

    Example:
        >>> torus(12).row(0).sources.tolist()
        [1, 3, 4, 8]

    Source: arXiv:2509.12213 (D_torus).
    """
    told = shape if shape is None or isinstance(shape, str) else "x".join(map(str, shape))
    name = label("torus", shape=told, dimensions=None if dimensions == 2 else dimensions)
    n = replicas(name, n)
    lengths = balanced_shape(name, n, dimensions) if shape is None else read_shape(name, shape, n)
    wide = [axis for axis, length in enumerate(lengths) if length > 1]
    weights: dict[tuple[int, ...], float] = {}
    for axis, step in product(wide, (-1, 1)):
        shift = tuple(step % lengths[axis] if axis == other else 0 for other in range(len(lengths)))
        weights[shift] = weights.get(shift, 0.0) + 1 / (2 * len(wide) + 1)
    return Cayley(name, lengths, weights)


def read_shape(name: str, shape: str | tuple[int, ...], n: int) -> tuple[int, ...]:
    """Lengths from (4, 6) or "4x6"; their product is n."""
    parts = shape.lower().split("x") if isinstance(shape, str) else [str(length) for length in shape]
    if not parts or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"graph {name!r}: got shape = {shape!r}, expected lengths of at least 1, for example 4x6")
    lengths = tuple(int(part) for part in parts)
    if math.prod(lengths) != n:
        raise ValueError(f"graph {name!r}: a shape of {shape} holds {math.prod(lengths)} replicas, but there are {n}")
    return lengths


def balanced_shape(name: str, n: int, dimensions: int) -> tuple[int, ...]:
    """The shape of so many dimensions whose lengths differ least, ascending.

    Raises:
        ValueError: a dimension would have length 1.
    """
    dimensions = integer(name, "dimensions", dimensions)
    lengths: list[int] = []
    rest = n
    for left in range(dimensions, 1, -1):
        fitting = takewhile(lambda length: length**left <= rest, count(1))  # noqa: B023 - used up at once
        lengths.append(max(length for length in fitting if rest % length == 0))
        rest //= lengths[-1]
    if n > 1 and 1 in lengths:
        raise ValueError(
            f"graph {name!r}: {n} replicas make no torus of {dimensions} dimensions longer than 1: take "
            f"{' or '.join(map(str, neighbouring_sizes(n, dimensions)))} replicas, give shape=1x{n} (a ring), or take "
            "a graph that fits any number (exponential, ring_lattice, base_k)"
        )
    return tuple(sorted([*lengths, rest]))


def neighbouring_sizes(n: int, dimensions: int) -> list[int]:
    """The next smaller and the next larger number that has so many prime factors, repetitions counted."""

    def splits(m: int) -> bool:
        found, factor = 0, 2
        while m > 1:
            while m % factor == 0:
                found, m = found + 1, m // factor
            factor = factor + 1 if factor * factor <= m else max(m, factor + 1)
        return found >= dimensions

    below = next((m for m in range(n - 1, 1, -1) if splits(m)), None)
    return [m for m in (below, next(m for m in count(n + 1) if splits(m))) if m is not None]
