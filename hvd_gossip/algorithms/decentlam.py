"""DecentLaM: momentum without the bias that grows with it.

`g' = (x - W (x - lr g))/lr`, then the local optimizer's step with g' in place of g; SGD with momentum b makes of it
`m <- b m + g'`, `x <- x - lr m`

Averaging is part of the gradient, so momentum runs over both. Where the rate is 0 the gradient stays as it is. Needs W
symmetric. Memory: one copy of the model. Sends, for each step and rank, the model once to each out-neighbour.
Source: arXiv:2104.11981.
"""

from __future__ import annotations

from hvd_gossip.algorithms.base import Algorithm, Local, State, mixed
from hvd_gossip.algorithms.rates import over
from hvd_gossip.mixing import Buffers, Mixer


class DecentLaM(Algorithm):
    """A gradient that holds the average; the momentum is the local optimizer's."""

    name = "decentlam"
    uses_gradient = True
    symmetric = True
    doubly_stochastic = True

    def gradient(self, x: Buffers, g: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        rates = local.rate()
        ahead = mixed([b - rate * d for b, d, rate in zip(x, g, rates, strict=True)], mixer)
        for b, d, there, rate in zip(x, g, ahead, rates, strict=True):
            d.copy_(over(b - there, rate, d))
        return state

    def step(self, x: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        local.update()
        return state
