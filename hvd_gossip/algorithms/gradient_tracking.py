"""Gradient tracking: each replica follows the mean gradient, so that different data leave no bias.

`y <- W y + g(t) - g(t-1)`, from y = g(0);  then, with y in place of the gradient,
awc: `x <- W x + u(W x, y)`;  atc: `x <- W (x + u(x, y))`

The mean of all y is that of all g at any time. For plain SGD awc is `X <- W X - lr Y`. Needs W doubly stochastic, which
may change. Memory: two copies of the gradient. Sends, for each step and rank, twice the model to each out-neighbour.
Source: arXiv:1607.03218.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hvd_gossip import specification
from hvd_gossip.algorithms.base import Algorithm, Local, assign
from hvd_gossip.algorithms.dpsgd import ORDERS
from hvd_gossip.mixing import Buffers, Mixer


class State(NamedTuple):
    """y, and the last gradient."""

    tracked: list[Tensor]
    before: list[Tensor]


class GradientTracking(Algorithm):
    """D-PSGD along a tracked mean gradient.

    Args:
        order: "awc" (mix, then update) or "atc" (update, then mix).

    Raises:
        ValueError: another order.
    """

    name = "gradient_tracking"
    uses_gradient = True
    doubly_stochastic = True

    def __init__(self, order: str = "awc") -> None:
        specification.choose("order", order, ORDERS)
        self.order = order

    def init(self, x: Buffers) -> State:
        return State([torch.zeros_like(b) for b in x], [torch.zeros_like(b) for b in x])

    def gradient(self, x: Buffers, g: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        mixer.mix(state.tracked)
        for y, now, before in zip(state.tracked, g, state.before, strict=True):
            y.add_(now).sub_(before)
        assign(state.before, g)
        assign(g, state.tracked)
        return state

    def step(self, x: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        if self.order == "awc":
            mixer.mix(x)
            local.update()
        else:
            local.update()
            mixer.mix(x)
        return state
