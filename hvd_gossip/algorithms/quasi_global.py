"""Quasi-global momentum: momentum along the way that replicas have really gone, averages included.

`m = mu v + g`,  `x' = W (x + u(x, g + mu m))` (Nesterov) or `W (x + u(x, m))`,  `v <- a v + (1 - a) (x - x')/lr`

from v = 0, with u = -lr (…) of an SGD without momentum; other optimizers see the same direction. Where the rate is 0,
v stays. Our reading of the authors' code: a = 0.9 there; their weight decay enters m, ours is the optimizer's own and
does not. Assumes W doubly stochastic. Memory: two copies of the model. Sends, for each step and rank, the model once to
each out-neighbour. Source: arXiv:2102.04761.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hvd_gossip.algorithms.base import Algorithm, Local, copies
from hvd_gossip.algorithms.rates import over
from hvd_gossip.algorithms.requirements import check_flag, check_number
from hvd_gossip.mixing import Buffers, Mixer


class State(NamedTuple):
    """v."""

    velocity: list[Tensor]


class QuasiGlobal(Algorithm):
    """D-PSGD with momentum of the replicas' common way.

    Args:
        momentum: mu, from 0 to 1.
        nesterov: Nesterov's form.
        decay: a, how much of v is kept in a step.

    Raises:
        ValueError: an option out of bounds.
    """

    name = "quasi_global"
    uses_gradient = True
    brings_momentum = True

    def __init__(self, momentum: float = 0.9, nesterov: bool = True, decay: float = 0.9) -> None:
        self.momentum = check_number(self.name, "momentum", momentum, 0, 1)
        self.nesterov = check_flag(self.name, "nesterov", nesterov)
        self.decay = check_number(self.name, "decay", decay, 0, 1)

    def init(self, x: Buffers) -> State:
        return State([torch.zeros_like(b) for b in x])

    def gradient(self, x: Buffers, g: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        for b, v in zip(g, state.velocity, strict=True):
            m = torch.add(b, v, alpha=self.momentum)
            b.add_(m, alpha=self.momentum) if self.nesterov else b.copy_(m)
        return state

    def step(self, x: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        before = copies(x)
        local.update()
        mixer.mix(x)
        for b, old, v, rate in zip(x, before, state.velocity, local.rate(), strict=True):
            v.lerp_(over(old - b, rate, v), 1 - self.decay)
        return state
