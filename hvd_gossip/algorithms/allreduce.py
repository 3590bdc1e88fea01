"""Centralized data-parallel training: every replica steps with the mean gradient.

`g <- 11^T/n g`,  `x <- x + u(x, g)`

Replicas that start equal stay equal. Needs: a mixer whose W is 11ᵀ/n. Memory: one copy of the gradient. Sends, for
each step and rank, `2 (n - 1)/n` of the model. Source: arXiv:1802.05799 (Horovod).
"""

from __future__ import annotations

from typing import ClassVar

from hvd_gossip.algorithms.base import Algorithm, Local, State
from hvd_gossip.mixing import Buffers, Mixer


class Allreduce(Algorithm):
    """`g <- mean of all g`, then the local update."""

    name = "allreduce"
    centralized: ClassVar[bool] = True
    uses_gradient = True

    def gradient(self, x: Buffers, g: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        mixer.mix(g)
        return state

    def step(self, x: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        local.update()
        return state
