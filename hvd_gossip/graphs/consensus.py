"""Rounds until replicas agree, by formula and by simulation."""

from __future__ import annotations

import math
from functools import lru_cache
from numbers import Real
from typing import NamedTuple

import numpy as np

from hvd_gossip.graphs.schedules import LONGEST, SAMPLED, Schedule, Static, as_schedule, looked_at
from hvd_gossip.graphs.seeds import generator
from hvd_gossip.graphs.spectral import EXACT, Estimate, first_factor, period_factor, second_moment
from hvd_gossip.graphs.topology import Topology, integer

FOLLOWED = 1_000
"""So many rounds are followed of a schedule without period that is not random."""
CAP = 1_000_000
"""A simulation ends after so many rounds."""


class Rate(NamedTuple):
    """By what factor the disagreement shrinks in a round, on average; `kind` says how that was found.

    `decay` is the disagreement after each round, where the factor does not tell the rounds: until the average is exact,
    or of a schedule without period for 1,000 rounds.
    """

    factor: float
    kind: str
    second_moment: Estimate | None = None
    decay: tuple[float, ...] = ()

    @property
    def gap(self) -> float:
        """1 - factor."""
        return 1.0 - self.factor


def consensus_rate(schedule: Topology | Schedule, round: int | None = None, epoch: int = 0) -> Rate:
    r"""The factor of a round: `|lambda_2|` of a static graph, `|lambda_2(W(T-1) … W(0))|^(1/T)` over a period T,
    `sqrt(lambda_2(E[W^T W]))` of a random schedule, `||W(31) … W(0) - 11^T/n||_2^(1/32)` of any other.

    Args:
        schedule: any.
        round: take the graph of this round alone, as if it stayed.
        epoch: for schedules that change with the epoch: the graphs of this epoch, as if they stayed.

    Example:
        >>> from hvd_gossip.graphs import Static, ring
        >>> round(consensus_rate(Static(ring(12))).gap, 5)
        0.08932
    """
    schedule = as_schedule(schedule)
    if round is not None:
        return consensus_rate(Static(schedule(round, epoch)))._replace(kind="graph of one round")
    if schedule.period is not None:
        kind = "period" if schedule.period > 1 else "graph"
        rate = Rate(period_factor(schedule, epoch) ** (1 / schedule.period), kind)
    elif getattr(schedule, "random", False):
        kind, found = "second moment", second_moment(schedule)
        rate = Rate(math.sqrt(max(0.0, found.value)), kind, found)
    else:
        kind = "graph of this epoch" if len(looked_at(schedule, epoch)) == 1 else f"first {SAMPLED} rounds"
        rate = Rate(first_factor(schedule, epoch), kind)
    if rate.factor > 0 and not kind.startswith("first"):
        return rate
    cap = FOLLOWED if schedule.period is None else min(schedule.period, LONGEST)
    return rate._replace(decay=tuple(simulate(schedule, EXACT, cap, epoch=epoch)[1:].tolist()))


def rounds_to_consensus(rate: Rate, epsilon: float = 1e-3) -> float:
    r"""Rounds until the disagreement is below epsilon of what it was: `ln(epsilon)/ln(factor)`, rounded up.

    Returns:
        Where the decay is told, the rounds that random values took; infinity where they did not come to it, or the
        factor is 1.

    Raises:
        ValueError: epsilon is not between 0 and 1.

    Example:
        >>> rounds_to_consensus(Rate(0.5, "graph"), epsilon=0.01)
        7
    """
    check_epsilon(epsilon)
    if rate.factor == 0 or rate.decay:
        never = math.inf if rate.factor else len(rate.decay)
        return next((rounds for rounds, error in enumerate(rate.decay, 1) if error <= epsilon), never)
    if rate.factor >= 1 - 1e-15:
        return math.inf
    # A whole number is not rounded up for its last bit.
    return math.ceil(math.log(epsilon) / math.log(rate.factor) - 1e-9)


def simulate(
    schedule: Topology | Schedule,
    epsilon: float = 1e-3,
    cap: int = CAP,
    vectors: int = 16,
    seed: int = 0,
    epoch: int = 0,
) -> np.ndarray:
    r"""Disagreement before the first round and after each further one, until it is below epsilon of the first.

    `e(t) = ||x(t) - mean x(t)||_F / ||x(0) - mean x(0)||_F`, x(0) of shape [n, vectors] drawn from the normal
    distribution.

    Args:
        schedule: any.
        epsilon: where to stop.
        cap: most rounds.
        vectors: columns of x.
        seed: which x(0).
        epoch: told to the schedule.

    Returns:
        A float64 array of shape [rounds + 1]; the last is above epsilon only if the cap was reached.

    Raises:
        ValueError: epsilon is not between 0 and 1, or vectors or cap no fitting integer.

    Example:
        >>> from hvd_gossip.graphs import base_k
        >>> len(simulate(base_k(12, k=2))) - 1
        3
    """
    check_epsilon(epsilon)
    schedule = as_schedule(schedule)
    vectors, cap = integer(schedule.name, "vectors", vectors), integer(schedule.name, "cap", cap, least=0)
    x = generator("consensus", seed).standard_normal((schedule.n, vectors))
    x -= x.mean(axis=0)
    first = float(np.linalg.norm(x))
    errors = [1.0 if schedule.n > 1 else 0.0]
    mixing = lru_cache(maxsize=4)(lambda topology: topology.mixing())
    while errors[-1] > epsilon and len(errors) <= cap:
        x = mixing(schedule(len(errors) - 1, epoch))(x)
        errors.append(float(np.linalg.norm(x - x.mean(axis=0))) / first)
    return np.array(errors)


def check_epsilon(epsilon: float) -> None:
    """Refuse what is no fraction."""
    if not isinstance(epsilon, Real) or not 0 < epsilon < 1:
        raise ValueError(f"got epsilon = {epsilon!r}, expected a fraction between 0 and 1")
