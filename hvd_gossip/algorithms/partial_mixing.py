"""Partial mixing (DSGD-AC): the less the learning rate, the less replicas average, so that they keep some distance.

`h = x + u(x, g)`,  `x <- (1 - c) h + c W h`,  `c = (lr/lr_max)^p`

lr_max is the largest rate so far, so c is 1 while the rate warms up. Kept disagreement finds flatter minima. Assumes W
doubly stochastic. Memory: one copy of the model. Sends, for each step and rank, the model once to each out-neighbour.
Source: arXiv:2602.02899.
"""

from __future__ import annotations

from typing import NamedTuple

from hvd_gossip.algorithms.base import Algorithm, Local, copies
from hvd_gossip.algorithms.rates import largest
from hvd_gossip.algorithms.requirements import check_number
from hvd_gossip.mixing import Buffers, Mixer


class State(NamedTuple):
    """lr_max."""

    largest: float


class PartialMixing(Algorithm):
    """D-PSGD that averages by a part of the way.

    Args:
        power: p, from 0 (D-PSGD) up.

    Raises:
        ValueError: power out of bounds.
    """

    name = "partial_mixing"
    skips = True

    def __init__(self, power: float = 1.0) -> None:
        self.power = check_number(self.name, "power", power, 0, 100)

    def init(self, x: Buffers) -> State:
        return State(0.0)

    def step(self, x: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        rate = largest(list(local.rate()))
        top = max(state.largest, rate)
        part = (rate / top) ** self.power if top else 1.0
        local.update()
        updated = copies(x)
        mixer.mix(x)
        for b, h in zip(x, updated, strict=True):
            b.copy_(h.lerp_(b, part))
        return State(top)
