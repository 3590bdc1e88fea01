"""Grids closed in every direction.

Rows receive, rows sum to 1; W is symmetric and doubly stochastic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from hvd_gossip.graphs.cayley import Cayley
from hvd_gossip.graphs.registry import graph
from hvd_gossip.graphs.topology import Topology, integer, replicas
from hvd_gossip.specification import label


@graph
def torus(n: int, shape: str | int | tuple[int, ...] | None = None, dimensions: int | None = None) -> Topology:
    r"""A grid closed in every direction: each replica hears the two next to it along every dimension.

    `W[i, i ± e_a] = 1/(2 D + 1)` for the D dimensions longer than 1; along a dimension of length 2 both neighbours
    are the same replica and its weight is doubled.

    Args:
        n: number of replicas.
        shape: lengths of the dimensions, as (4, 6) or "4x6" (default: the most even shape).
        dimensions: how many, where no shape is given (default: 2).

    Raises:
        ValueError: both shape and dimensions are given, the shape does not multiply to n, or n has no factors for an
            even one.

    Example:
        >>> torus(12).row(0).sources.tolist()
        [1, 3, 4, 8]

    Source: arXiv:2509.12213 (D_torus).
    """
    told = "x".join(map(str, shape)) if isinstance(shape, tuple | list) else shape
    name = label("torus", shape=told, dimensions=dimensions)
    n = replicas(name, n)
    if shape is not None and dimensions is not None:
        raise ValueError(f"graph {name!r}: a shape tells the dimensions: give one of them")
    dimensions = 2 if dimensions is None else dimensions
    lengths = balanced_shape(name, n, dimensions) if shape is None else read_shape(name, shape, n)
    wide = [axis for axis, length in enumerate(lengths) if length > 1]
    steps = [
        tuple(step if axis == other else 0 for other in range(len(lengths))) for axis, step in product(wide, (-1, 1))
    ]
    return Cayley(name, lengths, dict.fromkeys(steps, 1 / (2 * len(wide) + 1)))


def read_shape(name: str, shape: str | int | tuple[int, ...], n: int) -> tuple[int, ...]:
    """Lengths from (4, 6), "4x6" or 24; their product is n."""
    whole = isinstance(shape, int) and not isinstance(shape, bool)
    parts = shape.lower().split("x") if isinstance(shape, str) else [shape] if whole else shape
    try:
        lengths = tuple(integer(name, "length", int(part) if isinstance(part, str) else part) for part in parts)  # type: ignore[union-attr,arg-type]
    except (TypeError, ValueError):
        lengths = ()
    if not lengths:
        raise ValueError(f"graph {name!r}: got shape = {shape!r}, expected lengths of at least 1, for example 4x6")
    if math.prod(lengths) != n:
        raise ValueError(f"graph {name!r}: a shape of {shape} holds {math.prod(lengths)} replicas, but there are {n}")
    return lengths


def balanced_shape(name: str, n: int, dimensions: int) -> tuple[int, ...]:
    """The shape of so many dimensions whose lengths have the smallest sum, ascending.

    Raises:
        ValueError: a dimension would have length 1.
    """
    dimensions = integer(name, "dimensions", dimensions)
    if n == 1:
        return (1,) * dimensions
    found = min(shapes(n, dimensions, 2), key=sum, default=None)
    if found is None:
        near = " or ".join(map(str, neighbouring_sizes(n, dimensions)))
        advice = f"take {near} replicas" if near else "take fewer dimensions"
        raise ValueError(
            f"graph {name!r}: {n} replicas make no torus of {dimensions} dimensions longer than 1: {advice}, give "
            f"shape=1x{n} (a ring), or take a graph that fits any number (exponential, ring_lattice, base_k)"
        )
    return found


def shapes(n: int, dimensions: int, least: int) -> Iterator[tuple[int, ...]]:
    """All ways to write n as a product of so many ascending lengths of at least `least`."""
    if dimensions == 1:
        if n >= least:
            yield (n,)
        return
    length = least
    while length**dimensions <= n:
        if n % length == 0:
            yield from ((length, *rest) for rest in shapes(n // length, dimensions - 1, length))
        length += 1


def neighbouring_sizes(n: int, dimensions: int) -> list[int]:
    """The nearest smaller and larger numbers, among the next hundred, that make such a torus."""
    fits = [m for m in range(max(2, n - 100), n + 100) if any(True for _ in shapes(m, dimensions, 2))]
    below, above = [m for m in fits if m < n], [m for m in fits if m > n]
    return below[-1:] + above[:1]
