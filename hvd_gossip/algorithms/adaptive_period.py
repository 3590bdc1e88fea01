"""Adaptive periodic averaging: all models are averaged often at first, and rarely once they stay close by themselves.

`x <- x + u(x, g)`; after p steps `S = mean_i |x_i - mean|^2`, `x <- 11^T/n x`, and then
`p <- p + 1` where `S < low lr C`, `p <- p - 1` where `S > high lr C`, at least 1

C is the mean of S/lr over the averages of the first `initial` steps, in which p stays. The rule is our reading. W is
not used. Memory: one copy of the model. Sends, for each average and rank, `2 (n - 1)/n` of the model.
Source: arXiv:2007.06134.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hvd_gossip.algorithms.base import Algorithm, Local, copies
from hvd_gossip.algorithms.rates import largest
from hvd_gossip.algorithms.requirements import check_count, check_number
from hvd_gossip.mixing import Buffers, Mixer


class State(NamedTuple):
    """The period, steps since the last average, and the sum and number of S/lr that C is the mean of."""

    period: int
    since: int
    total: float
    seen: int


class AdaptivePeriod(Algorithm):
    """Local SGD whose period follows the distance of the replicas.

    Args:
        period: the first p, in steps.
        initial: steps until p may change.
        low, high: bounds of S over lr C, between which p stays.

    Raises:
        ValueError: an option out of bounds.
    """

    name = "adaptive_period"

    def __init__(self, period: int = 4, initial: int = 100, low: float = 0.7, high: float = 1.3) -> None:
        self.period = check_count(self.name, "period", period)
        self.initial = check_count(self.name, "initial", initial)
        self.low = check_number(self.name, "low", low, 0, 1)
        self.high = check_number(self.name, "high", high, 1, 1e6)

    def init(self, x: Buffers) -> State:
        return State(self.period, 0, 0.0, 0)

    def step(self, x: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        local.update()
        if state.since + 1 < state.period:
            return state._replace(since=state.since + 1)
        before = copies(x)
        mixer.mean(x)
        squares = [square(b - old) for b, old in zip(x, before, strict=True)]
        distance = mixer.mean_of(torch.stack(squares).sum(dim=0))
        return self._next(state._replace(since=0), distance, largest(list(local.rate())), local.step)

    def _next(self, state: State, distance: float, rate: float, step: int) -> State:
        """The period after an average at which the replicas were so far apart."""
        if step < self.initial:
            return state._replace(total=state.total + distance / rate, seen=state.seen + 1) if rate else state
        expected = rate * state.total / max(1, state.seen)
        longer, shorter = distance < self.low * expected, distance > self.high * expected
        return state._replace(period=max(1, state.period + longer - shorter))


def square(difference: Tensor) -> Tensor:
    """The squared norm of each replica's values, float64."""
    return torch.linalg.vector_norm(difference, dim=-1, dtype=difference.dtype.to_complex().to_real()).double() ** 2
