"""How fast graphs bring replicas together: spectral gap, rate of a period, second moment of random schedules.

Gaps are taken by modulus: `1 - |lambda_2|`, the second largest modulus of an eigenvalue, for directed and non-normal W
too. `||W - J||_2`, the worst case of a single round, is the same where W is normal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse import linalg

from hvd_gossip.graphs.cayley import Cayley
from hvd_gossip.graphs.composed import Hierarchical
from hvd_gossip.graphs.eigensolvers import DENSE, directed_second, less_mean, product_second, symmetric_second
from hvd_gossip.graphs.relabelled import Relabelled
from hvd_gossip.graphs.schedules import SAMPLED, Schedule, as_schedule, looked_at, sequence
from hvd_gossip.graphs.seeds import generator
from hvd_gossip.graphs.topology import MOST_WEIGHTS, Topology, integer, require_topology

EXACT = 1e-11
"""A factor below this is rounding: the average is exact."""


class Estimate(NamedTuple):
    """A value and its standard error; the error of a closed form is 0."""

    value: float
    error: float


def spectral_gap(topology: Topology) -> float:
    r"""`1 - |lambda_2(W)|`: what fraction of the disagreement a round takes away in the long run.

    Closed form by a Fourier transform for graphs that look the same from every rank, all eigenvalues up to 1,500
    replicas, sparse eigensolvers above.

    Raises:
        ValueError: the eigensolver did not converge.

    Example:
        >>> from hvd_gossip.graphs import ring
        >>> round(spectral_gap(ring(12)), 5)
        0.08932

    Source: arXiv:1705.09056; L. Xiao, S. Boyd, doi:10.1016/j.sysconle.2004.02.022.
    """
    require_topology(topology)
    return 1.0 - second_modulus(topology)


def second_modulus(topology: Topology) -> float:
    """The second largest modulus of an eigenvalue of W; 0 for one replica."""
    if topology.n == 1:
        return 0.0
    known = all_eigenvalues(topology)
    if known is not None:
        return clean(float(np.abs(known[1:]).max()))
    if isinstance(topology, Relabelled):
        return second_modulus(topology.base)
    with converging(topology.name, topology.n):
        return clean(second_of(topology.whole(), topology.symmetric))


def smallest_eigenvalue(topology: Topology) -> float:
    """The smallest eigenvalue of a symmetric W.

    Raises:
        ValueError: W is not symmetric, or the eigensolver did not converge.

    Example:
        >>> from hvd_gossip.graphs import ring
        >>> round(smallest_eigenvalue(ring(4)), 3)
        -0.333
    """
    if not topology.symmetric:
        raise ValueError(f"graph {topology.name!r}: expected a symmetric W")
    if (known := all_eigenvalues(topology)) is not None:
        return float(np.real(known).min())
    matrix = topology.whole()
    if topology.n <= DENSE:
        return float(np.linalg.eigvalsh(matrix.toarray())[0])
    with converging(topology.name, topology.n):
        start = generator("smallest eigenvalue", 0).standard_normal(topology.n)
        return float(linalg.eigsh(matrix, k=1, which="SA", v0=start, return_eigenvectors=False)[0])


@contextmanager
def converging(name: str, n: int) -> Iterator[None]:
    """Tell of an eigensolver that fails with the graph's name."""
    try:
        yield
    except (linalg.ArpackError, RuntimeError) as error:
        raise ValueError(f"graph {name!r}: the eigensolver for {n} replicas did not converge: {error}") from error


def all_eigenvalues(topology: Topology) -> np.ndarray | None:
    """All n eigenvalues where they have a closed form, first the 1 of the even vector, else None."""
    if isinstance(topology, Cayley) and topology.n <= MOST_WEIGHTS:
        return topology.eigenvalues().ravel()
    if isinstance(topology, Hierarchical) and (outer := all_eigenvalues(topology.outer)) is not None:
        between = (1 - topology.inner_weight) * outer
        return np.concatenate([topology.inner_weight + between, *[between] * (topology.size - 1)])
    return None


def second_of(matrix: sp.csr_array, symmetric: bool) -> float:
    """The second largest modulus of an eigenvalue of W."""
    if not symmetric:
        return directed_second(matrix)
    if matrix.shape[0] > DENSE:
        return symmetric_second(matrix)
    return float(np.sort(np.abs(np.linalg.eigvalsh(matrix.toarray())))[-2])


def clean(modulus: float) -> float:
    """A modulus within [0, 1], rounding taken off."""
    return 0.0 if modulus < EXACT else min(1.0, float(modulus))


def contraction(topology: Topology) -> float:
    r"""`||W - 11^T/n||_2`: the largest factor by which one round changes the distance from the mean.

    At least `|lambda_2|`, and equal to it where W is normal; above 1 is possible where W is not doubly stochastic.

    Example:
        >>> from hvd_gossip.graphs import exponential
        >>> round(contraction(exponential(16)), 3)
        0.6
    """
    require_topology(topology)
    if isinstance(topology, Cayley):
        return second_modulus(topology)
    with converging(topology.name, topology.n):
        return deviation_norm([topology.whole()])


def deviation_norm(matrices: list[sp.csr_array]) -> float:
    """`||W(T-1) … W(0) - 11^T/n||_2`, W(0) given first."""
    n = matrices[0].shape[0]
    if n <= DENSE:
        return float(np.linalg.norm(dense_product(matrices) - 1 / n, 2))
    start = generator("singular vector", 0).standard_normal(n)
    return float(linalg.svds(less_mean(*matrices), k=1, v0=start, return_singular_vectors=False)[0])


def dense_product(matrices: list[sp.csr_array]) -> np.ndarray:
    """`W(T-1) … W(0)`, W(0) given first."""
    product = np.eye(matrices[0].shape[0])
    for matrix in matrices:
        product = matrix @ product
    return product


def first_factor(schedule: Schedule, epoch: int = 0) -> float:
    r"""The factor of a round of a schedule without period: `||W(31) … W(0) - 11^T/n||_2^(1/32)`.

    Where the graph stays the same it is `|lambda_2|`.
    """
    rounds = looked_at(schedule, epoch)
    if len(rounds) == 1:
        return second_modulus(rounds[0][0])
    with converging(schedule.name, schedule.n):
        norm = deviation_norm([topology.whole() for topology in sequence(schedule, epoch)])
    return 0.0 if norm < EXACT else norm ** (1 / SAMPLED)


def period_factor(schedule: Topology | Schedule, epoch: int = 0) -> float:
    r"""The factor of a whole period: the second largest modulus of an eigenvalue of `W(T-1) … W(1) W(0)`.

    Returns:
        0 where the period averages exactly.

    Raises:
        ValueError: the schedule has no period.

    Example:
        >>> from hvd_gossip.graphs import base_k, one_peer_exponential
        >>> period_factor(base_k(12, k=2)), round(period_factor(one_peer_exponential(12)), 3)
        (0.0, 0.209)
    """
    schedule = as_schedule(schedule)
    if schedule.period is None:
        raise ValueError(f"graph {schedule.name!r} has no period: see second_moment")
    rounds = sequence(schedule, epoch)
    different = {id(topology): topology for topology in rounds}
    if len(different) == 1 or schedule.n == 1:
        return clean(second_modulus(rounds[0]) ** len(rounds))
    shapes = {one.shape if isinstance(one, Cayley) else None for one in different.values()}
    if len(shapes) == 1 and None not in shapes:
        # Cayley graphs of one group have the same eigenvectors.
        spectra = [one.eigenvalues() ** times for one, times in looked_at(schedule, epoch) if isinstance(one, Cayley)]
        return clean(np.abs(np.prod(spectra, axis=0)).ravel()[1:].max())
    if becomes_even(rounds):
        return 0.0
    matrices = {key: one.whole() for key, one in different.items()}
    with converging(schedule.name, schedule.n):
        return clean(product_modulus([matrices[id(one)] for one in rounds]))


def becomes_even(rounds: list[Topology]) -> bool:
    """Whether random values are all the same after these rounds, or before the last of them."""
    mixing = lru_cache(maxsize=4)(lambda topology: topology.mixing())
    x = generator("probe", 0).standard_normal((rounds[0].n, 4))
    for topology in rounds:
        x = mixing(topology)(x)
        if np.abs(x - x.mean(axis=0)).max() < EXACT:
            return True
    return False


def product_modulus(matrices: list[sp.csr_array]) -> float:
    """The second largest modulus of an eigenvalue of the product, the first factor applied first."""
    n = matrices[0].shape[0]
    if n <= DENSE:
        return directed_second(sp.csr_array(dense_product(matrices)))
    if n * math.prod(1 + int(np.diff(matrix.indptr).max()) for matrix in matrices) > MOST_WEIGHTS:
        return product_second(matrices)
    product = matrices[0]
    for matrix in matrices[1:]:
        product = matrix @ product
    return second_of(product, bool(abs(product - product.T).max() <= 1e-12))


def second_moment(schedule: Topology | Schedule, samples: int = 400, seed: int = 0) -> Estimate:
    r"""The second eigenvalue of `E[W^T W]`: for random W, `E||W x - mean||^2 <= lambda ||x - mean||^2`.

    A closed form where the schedule has one. Otherwise half of the sampled rounds tell the worst direction v, the other
    half estimate `E||W v||^2`, and the other way round; the error is that of the mean.

    Args:
        schedule: a random schedule; its first rounds are the sample.
        samples: how many rounds, at least 4.
        seed: for a sparse eigensolver's start.

    Example:
        >>> from hvd_gossip.graphs import random_ring
        >>> round(second_moment(random_ring(16)).value, 4)
        0.2889

    Source: arXiv:2002.01119; S. Boyd et al., doi:10.1109/TIT.2006.874516.
    """
    schedule = as_schedule(schedule)
    known = getattr(schedule, "second_moment", None)
    if known is not None or schedule.n == 1:
        return Estimate(float(known or 0.0), 0.0)
    samples = integer(schedule.name, "samples", samples, least=4)
    matrices = [schedule(t).whole() for t in range(samples)]
    halves = (matrices[::2], matrices[1::2])
    with converging(schedule.name, schedule.n):
        directions = [worst_direction(half, seed) for half in halves]
    values = [
        float(np.square(matrix @ vector).sum())
        for vector, other in zip(directions, halves[::-1], strict=True)
        for matrix in other
    ]
    return Estimate(float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values))))


def worst_direction(matrices: list[sp.csr_array], seed: int) -> np.ndarray:
    """The unit vector orthogonal to 1 that these rounds leave largest on average."""
    n = matrices[0].shape[0]
    mean = sum((matrix.T @ matrix for matrix in matrices[1:]), matrices[0].T @ matrices[0]) / len(matrices)
    if n <= DENSE:
        return np.linalg.eigh(mean.toarray() - 2 / n)[1][:, -1]
    start = generator("eigenvector", seed).standard_normal(n)
    return linalg.eigsh(less_mean(mean, times=2), k=1, which="LA", v0=start)[1][:, 0]
