"""Rounds until replicas agree, by formula and by simulation."""

from __future__ import annotations

import math
from numbers import Real
from typing import NamedTuple

import numpy as np

from hvd_gossip.graphs.schedules import Schedule
from hvd_gossip.graphs.seeds import generator
from hvd_gossip.graphs.spectral import Estimate, period_factor, second_modulus, second_moment

CAP = 1_000_000
"""A simulation ends after so many rounds."""


class Rate(NamedTuple):
    """By what factor the disagreement shrinks in a round, on average; `kind` says how that was found."""

    factor: float
    kind: str
    period: int | None
    second_moment: Estimate | None = None

    @property
    def gap(self) -> float:
        """1 - factor."""
        return 1.0 - self.factor


def consensus_rate(schedule: Schedule, round: int | None = None, epoch: int = 0) -> Rate:
    r"""The factor of a round: `|lambda_2|` of a static graph, `|lambda_2(W(T-1) … W(0))|^(1/T)` over a period T,
    `sqrt(lambda_2(E[W^T W]))` of a random schedule.

    Args:
        schedule: any.
        round: take the graph of this round alone, as if it stayed.
        epoch: for schedules that change with the epoch: the graph of this epoch, as if it stayed.

    Example:
        >>> from hvd_gossip.graphs import Static, ring
        >>> round(consensus_rate(Static(ring(12))).gap, 5)
        0.08932
    """
    if round is not None:
        return Rate(second_modulus(schedule(round, epoch)), "graph of one round", 1)
    if schedule.period is not None:
        factor = period_factor(schedule, epoch) ** (1 / schedule.period)
        return Rate(factor, "whole period" if schedule.period > 1 else "graph", schedule.period)
    if getattr(schedule, "random", False):
        found = second_moment(schedule)
        return Rate(math.sqrt(max(0.0, found.value)), "second moment", None, found)
    return Rate(second_modulus(schedule(0, epoch)), "graph of this epoch", None)


def rounds_to_consensus(rate: Rate, epsilon: float = 1e-3) -> float:
    r"""Rounds until the disagreement is below epsilon of what it was: `ln(epsilon)/ln(factor)`, rounded up.

    Returns:
        The period where it averages exactly, infinity where the factor is 1.

    Raises:
        ValueError: epsilon is not between 0 and 1.

    Example:
        >>> rounds_to_consensus(Rate(0.5, "graph", 1), epsilon=0.01)
        7
    """
    check_epsilon(epsilon)
    if rate.factor == 0:
        return rate.period or 1
    if rate.factor >= 1 - 1e-15:
        return math.inf
    # A whole number is not rounded up for its last bit.
    return math.ceil(math.log(epsilon) / math.log(rate.factor) - 1e-9)


def simulate(
    schedule: Schedule, epsilon: float = 1e-3, cap: int = CAP, vectors: int = 16, seed: int = 0, epoch: int = 0
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
        ValueError: epsilon is not between 0 and 1.

    Example:
        >>> from hvd_gossip.graphs import base_k
        >>> len(simulate(base_k(12, k=2))) - 1
        3
    """
    check_epsilon(epsilon)
    x = generator("consensus", seed).standard_normal((schedule.n, vectors))
    x -= x.mean(axis=0)
    first = float(np.linalg.norm(x))
    errors = [1.0 if schedule.n > 1 else 0.0]
    topology = schedule(0, epoch)
    matrix = topology.matrix()
    while errors[-1] > epsilon and len(errors) <= cap:
        if (now := schedule(len(errors) - 1, epoch)) is not topology:
            topology, matrix = now, now.matrix()
        x = matrix @ x
        errors.append(float(np.linalg.norm(x - x.mean(axis=0))) / first)
    return np.array(errors)


def check_epsilon(epsilon: float) -> None:
    """Refuse what is no fraction."""
    if not isinstance(epsilon, Real) or not 0 < epsilon < 1:
        raise ValueError(f"got epsilon = {epsilon!r}, expected a fraction between 0 and 1")
