"""MATCHA: the matchings of a base graph, each used in a round with a probability that a budget allows.

Source: arXiv:1905.09435.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import networkx as nx
import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.optimize import linprog, minimize_scalar

from hvd_gossip.graphs.local import LocalTopology
from hvd_gossip.graphs.registry import graph, static
from hvd_gossip.graphs.schedules import Varying
from hvd_gossip.graphs.seeds import generator
from hvd_gossip.graphs.topology import Topology, number, replicas
from hvd_gossip.graphs.weights import one_way
from hvd_gossip.specification import label

LARGEST = 2_000
"""Above so many replicas the dense eigenvalue problems are refused."""
MOST_MATCHINGS = 64
MOST_ENTRIES = 50_000_000
CUTS = 500
"""Rounds of cutting planes at most."""
LOWEST = 6
"""So many eigenvectors give cuts."""
DIGITS = 9
"""Probabilities and the step are rounded to so many digits: all ranks must come to the same."""


@graph
def matcha(n: int, base: str = "ring", budget: float = 0.5, seed: int = 0) -> Varying:
    r"""Matching j of a base graph is used in a round with probability p_j; a budget bounds the messages.

    `W(t) = I - a sum_{j used} L_j`. p maximizes `lambda_2(sum_j p_j L_j)` subject to `sum_j p_j <= budget M` and
    `0 <= p_j <= 1`, M the number of matchings; a minimizes `||E[W^T W] - 11^T/n||_2` among the steps that leave no
    weight negative (this last bound is ours).

    Args:
        n: number of replicas, at most 2,000 with a base of about ten matchings.
        base: a symmetric static graph, in the short form.
        budget: the fraction of the matchings that is used on average, above 0, at most 1; messages can exceed it where
            matchings differ in size.
        seed: which matchings are used in which round.

    Raises:
        ValueError: the base graph is directed or unknown, the budget is out of range, or n is too large.

    Example:
        >>> [len(matcha(8, budget=0.5, seed=2)(round).row(0).sources) for round in range(4)]
        [1, 1, 0, 2]

    Source: arXiv:1905.09435.
    """
    name = label("matcha", base=base, budget=budget, seed=seed)
    n = replicas(name, n)
    budget = number(name, "budget", budget, lambda budget: 0 < budget <= 1, "a fraction above 0, at most 1")
    if n > LARGEST:
        raise ValueError(f"graph {name!r}: got {n} replicas, expected at most {LARGEST}: it solves dense problems")
    generator(name, seed)
    if not isinstance(base, str):
        raise ValueError(f"graph {label('matcha', base=base)!r}: expected the short form of a symmetric static graph")
    partners, probabilities, step, second = plan(base, n, budget, int(seed))

    def draw(round: int, epoch: int) -> Topology:
        used = generator("matcha", seed, round).random_sample(len(partners)) < probabilities
        active = partners[used]

        def neighbours(ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            found = active[:, ranks].T
            return found, np.where(found == ranks[:, None], 0.0, step)

        return LocalTopology(f"{name} round {round}", n, ("matcha", base, seed, used.tobytes()), neighbours)

    degree = int((partners[probabilities > 0] != np.arange(n)).sum(axis=0).max(initial=0))
    return Varying(name, n, draw, degree=degree, random=True, second_moment=second)


@lru_cache(maxsize=8)
def plan(base: str, n: int, budget: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Partners by matching and rank, probabilities of the matchings, the step, the second eigenvalue of E[W^T W]."""
    topology = static(base, n, seed)
    if (edge := one_way(topology)) is not None:
        raise ValueError(
            f"graph 'matcha' needs a symmetric base, but {base!r} is directed: replica {edge[0]} hears {edge[1]}, and "
            f"{edge[1]} does not hear {edge[0]}"
        )
    partners = matchings(topology)
    if len(partners) > MOST_MATCHINGS or len(partners) * n * n > MOST_ENTRIES:
        raise ValueError(
            f"graph 'matcha': the base {base!r} of {n} replicas falls into {len(partners)} matchings, too many to "
            f"optimize (at most {MOST_MATCHINGS}, and fewer for many replicas): take a sparser base"
        )
    laplacians = [laplacian(partner) for partner in partners]
    if not laplacians:
        return partners, np.zeros(0), 0.0, 0.0
    probabilities = np.round(connect_most(laplacians, budget * len(laplacians)), DIGITS)
    largest = int((partners != np.arange(n)).sum(axis=0).max())
    step, second = best_step(laplacians, probabilities, 1 / largest)
    return partners, probabilities, step, second


def matchings(topology: Topology) -> np.ndarray:
    """Partner of each rank in each matching, itself where it has none: int64 of shape [matchings, n]."""
    edges = sp.triu(topology.matrix(), k=1).tocoo()
    lines = nx.line_graph(nx.Graph(zip(edges.row.tolist(), edges.col.tolist(), strict=True)))
    strategy = "DSATUR" if len(lines) <= 300 else "largest_first"
    colours = nx.greedy_color(lines, strategy=strategy)
    partners = np.tile(np.arange(topology.n), (1 + max(colours.values(), default=-1), 1))
    for (one, other), colour in sorted(colours.items()):
        partners[colour, [one, other]] = other, one
    return partners


def laplacian(partner: np.ndarray) -> np.ndarray:
    """`L = D - A` of one matching, dense."""
    n = len(partner)
    matrix = np.diag((partner != np.arange(n)).astype(float))
    paired = np.flatnonzero(partner != np.arange(n))
    matrix[paired, partner[paired]] = -1.0
    return matrix


def connect_most(laplacians: list[np.ndarray], total: float) -> np.ndarray:
    """Probabilities that sum to `total` at most and make `lambda_2(sum_j p_j L_j)` largest, by cutting planes.

    For every unit v orthogonal to 1, `lambda_2 <= sum_j p_j v^T L_j v`. The lowest eigenvectors of a p give the next
    bounds, and a linear program the next p; looking half way between it and the best p as well keeps it from swinging.
    """
    stacked, count = np.stack(laplacians), len(laplacians)
    best = np.full(count, total / count)
    best_value, cuts = cuts_at(stacked, best)
    bounds = [(0.0, 1.0)] * count + [(0.0, None)]
    for _ in range(CUTS):
        rows = np.vstack([*cuts, np.append(np.ones(count), 0.0)])
        right = np.append(np.zeros(len(rows) - 1), total)
        found = linprog(np.append(np.zeros(count), -1.0), rows, right, bounds=bounds)
        if -found.fun <= best_value * (1 + 1e-7) + 1e-12:
            break
        # Bounds that are far from binding would only slow the program down.
        cuts = cuts[np.argsort(found.slack[:-1])[: 20 * count]]
        for point in (found.x[:-1], (found.x[:-1] + best) / 2):
            value, more = cuts_at(stacked, point)
            cuts = np.vstack([cuts, more])
            if value > best_value:
                best, best_value = point, value
    return np.clip(best, 0.0, 1.0)


def cuts_at(laplacians: np.ndarray, probabilities: np.ndarray) -> tuple[float, np.ndarray]:
    """`lambda_2` there, and rows `(-v^T L_j v …, 1)` of the lowest eigenvectors v and of mixtures of equal ones."""
    # The even vector, of eigenvalue 0, is moved out of the way: where groups are separate it would mix with others.
    shifted = np.tensordot(probabilities, laplacians, 1) + 2.0 * len(laplacians)
    lowest = (0, min(LOWEST, len(shifted) - 1) - 1)
    values, vectors = eigh(shifted, subset_by_index=lowest, overwrite_a=True, check_finite=False)
    low = vectors.T
    equal = low[values <= values[0] * (1 + 1e-3) + 1e-9]
    pairs = [(one + sign * other) / np.sqrt(2) for one, other in combinations(equal, 2) for sign in (-1, 1)]
    directions = np.array([*low, *pairs])
    bends = np.einsum("vi,jik,vk->vj", directions, laplacians, directions, optimize=True)
    return float(values[0]), np.hstack([-bends, np.ones((len(bends), 1))])


def best_step(laplacians: list[np.ndarray], probabilities: np.ndarray, largest: float) -> tuple[float, float]:
    """The step a that minimizes `||E[W^T W] - J||`, and that norm.

    `E[W^T W] = I - 2 a L + a^2 (L^2 + 2 V)`, `L = sum p_j L_j`, `V = sum p_j (1 - p_j) L_j`, since `L_j^2 = 2 L_j`.
    """
    n = len(laplacians[0])
    mean = sum(p * matrix for p, matrix in zip(probabilities, laplacians, strict=True))
    spread = sum(2 * p * (1 - p) * matrix for p, matrix in zip(probabilities, laplacians, strict=True))
    square = mean @ mean + spread

    def norm(step: float) -> float:
        return float(np.abs(np.linalg.eigvalsh(np.eye(n) - 2 * step * mean + step**2 * square - 1 / n)).max())

    found = minimize_scalar(norm, bounds=(0, largest), method="bounded", options={"xatol": 1e-8})
    step = min(round(float(found.x), DIGITS), largest)
    candidates = {step: norm(step), largest: norm(largest)}
    return min(candidates.items(), key=lambda pair: pair[1])
