"""DaSGD: local SGD whose average comes late, so that nobody waits for it.

`x <- x + u(x, g)`; after the last step of a round of tau steps the average m of all models is begun; d steps into the
next round, after the update, `x <- xi x + (1 - xi) m`

With d = 0 and xi = 0 this is local SGD. W is not used. Memory: one copy of the model. Sends, for each round and rank,
`2 (n - 1)/n` of the model. Source: arXiv:2006.00441 (tau = 4, d = 1, xi = 0.25 in the authors' script).
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from hvd_gossip.algorithms.base import Algorithm, Local, copies
from hvd_gossip.algorithms.requirements import check_count, check_number
from hvd_gossip.mixing import Buffers, Mixer


class State(NamedTuple):
    """m on its way, or nothing."""

    average: list[Tensor]


class DaSGD(Algorithm):
    """Local SGD with delayed averaging.

    Args:
        tau: steps of a round.
        d: steps by which the average is late, less than tau.
        xi: how much of itself a replica keeps.

    Raises:
        ValueError: an option out of bounds.
    """

    name = "dasgd"

    def __init__(self, tau: int = 4, d: int = 1, xi: float = 0.25) -> None:
        self.tau, self.d = check_count(self.name, "tau", tau), check_count(self.name, "d", d, least=0)
        self.xi = check_number(self.name, "xi", xi, 0, 1)
        if self.d >= self.tau:
            raise ValueError(f"algorithm 'dasgd': got d = {d} with tau = {tau}, expected less: the next average begins")

    def init(self, x: Buffers) -> State:
        return State([])

    def step(self, x: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        local.update()
        done = local.step + 1
        if done % self.tau == 0:
            state = State(copies(x))
            mixer.mean(state.average)
        if state.average and done % self.tau == self.d:
            for b, m in zip(x, state.average, strict=True):
                b.lerp_(m, 1 - self.xi)
            state = State([])
        return state
