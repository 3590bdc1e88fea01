"""EquiTopo: graphs whose gap does not depend on n, static or with one peer in each round.

`A_a = (n - 1)/n P_a + I/n`, with P_a the cyclic shift by a, is the basis of all of them. Rows receive; every W here is
doubly stochastic.

Source: arXiv:2210.07881.
"""

from __future__ import annotations

from itertools import count
from math import gcd

import numpy as np

from hvd_gossip.graphs.cayley import Cayley
from hvd_gossip.graphs.local import LocalTopology
from hvd_gossip.graphs.registry import graph
from hvd_gossip.graphs.schedules import Varying
from hvd_gossip.graphs.seeds import generator
from hvd_gossip.graphs.topology import Topology, integer, number, replicas
from hvd_gossip.specification import label

ETA = 0.53
"""The step of one peer in the authors' code."""


@graph
def d_equistatic(n: int, m: int | None = None, seed: int = 0) -> Topology:
    r"""The mean of m random cyclic shifts: directed, degree m.

    `W = (1/m) sum_a A_a`, `A_a = (n - 1)/n P_a + I/n`, over m different random a from 1 … n - 1.

    Args:
        n: number of replicas.
        m: number of shifts, less than n (default: `ceil(log2 n)`, the degree of the exponential graph).
        seed: which shifts.

    Raises:
        ValueError: m is not an integer from 1 to n - 1.

    Example:
        >>> len(d_equistatic(16, m=3, seed=1).row(0).sources)
        3

    Source: arXiv:2210.07881; that the shifts differ from each other is our reading.
    """
    name = label("d_equistatic", m=m, seed=seed)
    found = shifts(name, n, m, seed)
    return Cayley(name, (n,), {(a,): (n - 1) / n / len(found) for a in found})


@graph
def u_equistatic(n: int, m: int | None = None, seed: int = 0) -> Topology:
    r"""The mean of m random cyclic shifts in both directions: symmetric, degree at most 2 m.

    `W = (1/m) sum_a (A_a + A_a^T)/2`, over m different random a from 1 … n/2.

    Args:
        n: number of replicas.
        m: number of shifts, at most n/2 (default: `ceil(log2 n)/2`, rounded up: the exponential graph's degree).
        seed: which shifts.

    Raises:
        ValueError: m is not an integer from 1 to n/2.

    Example:
        >>> u_equistatic(16, m=2, seed=1).symmetric
        True

    Source: arXiv:2210.07881; that the shifts differ from each other is our reading.
    """
    name = label("u_equistatic", m=m, seed=seed)
    found = shifts(name, n, m, seed, half=True)
    weight = (n - 1) / n / (2 * len(found)) if found else 0.0
    return Cayley(name, (n,), {(sign * a,): weight for a in found for sign in (-1, 1)})


def shifts(name: str, n: int, m: int | None, seed: int, half: bool = False) -> list[int]:
    """The first m different random shifts that connect all replicas, of one direction where `half`."""
    n = replicas(name, n)
    largest = n // 2 if half else n - 1
    if m is None:
        degree = (n - 1).bit_length()
        m = min(largest, (degree + 1) // 2 if half else degree)
    elif integer(name, "m", m) > largest and n > 1:
        raise ValueError(f"graph {name!r}: got m = {m} for {n} replicas, expected at most {largest} shifts")
    purpose = name.partition(":")[0]
    generator(purpose, seed)
    if n == 1:
        return []
    drawn = ((1 + generator(purpose, seed, attempt).permutation(largest)[:m]).tolist() for attempt in count())
    # Shifts that have a factor in common with n would leave groups that never hear of each other.
    return next(found for found in drawn if gcd(n, *found) == 1)


@graph
def od_equidyn(n: int, eta: float = ETA, seed: int = 0) -> Varying:
    r"""One random cyclic shift in each round: directed, one peer.

    `W(t) = (1 - eta) I + eta A_a`, a uniform in 1 … n - 1.

    Args:
        n: number of replicas.
        eta: the weight given to the peer, above 0, at most 1.
        seed: which shifts.

    Raises:
        ValueError: eta is not in (0, 1].

    Example:
        >>> od_equidyn(8, seed=1)(round=5).row(0).sources.size
        1

    Source: arXiv:2210.07881.
    """
    name = label("od_equidyn", eta=eta if eta != ETA else None, seed=seed)
    n, weight = replicas(name, n), peer_weight(name, n, eta)
    generator(name, seed)

    def draw(round: int, epoch: int) -> Topology:
        if n == 1:
            return Cayley(name, (1,), {})
        a = 1 + generator("od_equidyn", seed, round).randint(0, n - 1, dtype=np.int64)
        return Cayley(f"{name} round {round}", (n,), {(int(a),): weight})

    # |1 - w + w z|^2 averaged over the n - 1 shifts, where the values of z other than 1 sum to -1.
    second = (1 - weight) ** 2 + weight**2 - 2 * weight * (1 - weight) / (n - 1) if n > 1 else 0.0
    return Varying(name, n, draw, degree=min(1, n - 1), random=True, second_moment=second)


@graph
def ou_equidyn(n: int, eta: float = ETA, seed: int = 0) -> Varying:
    r"""Random pairs at one cyclic distance in each round: symmetric, one peer or none.

    `W(t) = (1 - eta) I + eta A`, `A = (n - 1)/n M + I/n`, where M exchanges every other i, counted from a random start
    along the cycles of a random shift a, with i + a; at odd cycles one replica stays alone.

    Args:
        n: number of replicas.
        eta: the weight given to the peer, above 0, at most 1.
        seed: which shifts and starts.

    Raises:
        ValueError: eta is not in (0, 1].

    Example:
        >>> ou_equidyn(8, seed=1)(round=5).symmetric
        True

    Source: arXiv:2210.07881.
    """
    name = label("ou_equidyn", eta=eta if eta != ETA else None, seed=seed)
    n, weight = replicas(name, n), peer_weight(name, n, eta)
    generator(name, seed)

    def draw(round: int, epoch: int) -> Topology:
        random = generator("ou_equidyn", seed, round)
        a, start = (int(random.randint(low, max(n, low + 1), dtype=np.int64)) for low in (1, 0))
        return matching_of_shift(f"{name} round {round}", n, a, start, weight)

    second = second_moment_of_pairs(n, weight)
    return Varying(name, n, draw, degree=min(1, n - 1), random=True, second_moment=second)


def second_moment_of_pairs(n: int, weight: float) -> float:
    """The second eigenvalue of E[W^T W] over all shifts and starts; the expectation is circulant.

    A replica is paired with i + a and with i - a equally often, and alone once in an odd cycle's length.
    """
    if n == 1:
        return 0.0
    a = np.arange(1, n)
    length = n // np.gcd(n, a)
    paired = np.where(length % 2 == 0, 1.0, 1 - 1 / length) / (n - 1)
    kernel = np.zeros(n)
    kernel[0] = 1 - paired.sum() * (1 - (1 - weight) ** 2 - weight**2)
    np.add.at(kernel, np.concatenate([a, n - a]), np.tile(weight * (1 - weight) * paired, 2))
    return float(np.abs(np.fft.fft(kernel)[1:]).max())


def matching_of_shift(name: str, n: int, a: int, start: int, weight: float) -> Topology:
    """Every other replica along each cycle of the shift a, from position `start` on, exchanges with the next one."""
    cycles = gcd(n, a)
    length = n // cycles
    inverse = pow(a // cycles, -1, length) if length > 1 else 0

    def neighbours(ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        position = (ranks // cycles * inverse - start) % length
        step = np.where(position % 2 == 0, a, -a)
        alone = (position == length - 1) & (length % 2 == 1)
        found = np.where(alone, ranks, (ranks + step) % n)
        return found[:, None], np.where(alone, 0.0, weight)[:, None]

    return LocalTopology(name, n, ("matching of shift", a, start % length), neighbours)


def peer_weight(name: str, n: int, eta: float) -> float:
    """What one peer counts: eta (n - 1)/n."""
    return number(name, "eta", eta, lambda eta: 0 < eta <= 1, "a number above 0, at most 1") * (n - 1) / n
