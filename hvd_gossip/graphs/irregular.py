"""Static graphs that do not look the same from every rank: star, binary tree, expander.

Rows receive, rows sum to 1; weights are symmetric, hence W is doubly stochastic.
"""

from __future__ import annotations

from math import isqrt

import numpy as np

from hvd_gossip.graphs.edge_list import EdgeList, metropolis
from hvd_gossip.graphs.local import LocalTopology
from hvd_gossip.graphs.registry import graph
from hvd_gossip.graphs.topology import Topology, replicas


@graph
def star(n: int) -> Topology:
    r"""Replica 0 hears all others, and they hear it alone.

    `W[0, j] = W[j, 0] = 1/n`, `W[0, 0] = 1/n`, `W[j, j] = 1 - 1/n`: the metropolis rule. Gap `1/n` for n >= 3.

    Args:
        n: number of replicas, at least 1.

    Raises:
        ValueError: n is not an integer of at least 1.

    Example:
        >>> star(4).row(2).sources.tolist()
        [0]

    Source: arXiv:2110.13363 (compared with the exponential graphs).
    """
    others = np.arange(1, replicas("star", n))
    return EdgeList("star", n, np.zeros_like(others), others)


@graph
def binary_tree(n: int) -> Topology:
    r"""Replica i hears its parent (i - 1)/2 and its children 2i + 1 and 2i + 2.

    `W[i, j] = 1/(1 + max(degree_i, degree_j))`, the metropolis rule.

    Args:
        n: number of replicas, at least 1.

    Raises:
        ValueError: n is not an integer of at least 1.

    Example:
        >>> binary_tree(6).row(1).sources.tolist()
        [0, 3, 4]

    Source: arXiv:2006.11165 (trees as graphs for training).
    """
    n = replicas("binary_tree", n)

    def degree(ranks: np.ndarray) -> np.ndarray:
        return (ranks > 0).astype(int) + (2 * ranks + 1 < n) + (2 * ranks + 2 < n)

    def neighbours(ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = np.stack([(ranks - 1) // 2, 2 * ranks + 1, 2 * ranks + 2], axis=1)
        there = (found >= 0) & (found < n)
        found = np.where(there, found, ranks[:, None])
        weights = metropolis(degree(found), degree(ranks)[:, None])
        return found, np.where(there, weights, 0.0)

    return LocalTopology("binary_tree", n, "binary_tree", neighbours)


@graph
def margulis(n: int) -> Topology:
    r"""The expander of Margulis, Gabber and Galil on an m x m torus, n = m^2: degree at most 8, gap bounded below.

    (x, y) and (x ± 2y, y), (x ± (2y + 1), y), (x, y ± 2x), (x, y ± (2x + 1)) modulo m hear each other; every one of
    the eight counts 1/9, also where some coincide.

    Args:
        n: number of replicas, a square.

    Raises:
        ValueError: n is not a square.

    Example:
        >>> margulis(9).row(0).sources.tolist()
        [1, 2, 3, 6]

    Source: networkx `margulis_gabber_galil_graph`; O. Gabber, Z. Galil, doi:10.1016/0022-0000(81)90040-4.
    """
    n = replicas("margulis", n)
    m = isqrt(n)
    if m * m != n:
        raise ValueError(f"graph 'margulis': got n = {n}, expected a square: {m * m} or {(m + 1) ** 2}")

    def neighbours(ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, y = ranks // m, ranks % m
        along_x = [(x + sign * (2 * y + odd)) % m * m + y for sign in (-1, 1) for odd in (0, 1)]
        along_y = [x * m + (y + sign * (2 * x + odd)) % m for sign in (-1, 1) for odd in (0, 1)]
        found = np.stack(along_x + along_y, axis=1)
        return found, np.full(found.shape, 1 / 9)

    return LocalTopology("margulis", n, "margulis", neighbours)
