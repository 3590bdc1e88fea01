"""Delay-by-one: the average of the newest models belongs to a gradient taken at the models one step older.

`X(t+1) = W X(t) + u(W X(t), g(X(t-1)))`,  X(-1) = X(0)

The staleness is exactly one, so average and gradient can be computed at the same time. What W is, the paper's abstract
does not say; our readings are the global average 11ᵀ/n and the neighbourhood's. The model that a user sees is X(t-1).
Assumes W doubly stochastic. Memory: one copy of the model. Sends, for each step and rank, the model once to each
out-neighbour, or `2 (n - 1)/n` of it. Source: arXiv:2002.01119; the equation is our reading.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from hvd_gossip import specification
from hvd_gossip.algorithms.base import Algorithm, Local, assign, copies
from hvd_gossip.mixing import Buffers, Mixer

AVERAGES = ("global", "neighbors")


class State(NamedTuple):
    """X(t), while x holds X(t-1)."""

    newest: list[Tensor]


class Delayed(Algorithm):
    """D-PSGD with gradients one step old.

    Args:
        average: "neighbors" (of the graph) or "global".

    Raises:
        ValueError: another average.
    """

    name = "delayed"

    def __init__(self, average: str = "neighbors") -> None:
        specification.choose("average", average, AVERAGES)
        self.average = average

    def init(self, x: Buffers) -> State:
        return State(copies(x))

    def step(self, x: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        assign(x, state.newest)
        if self.average == "global":
            mixer.mean(x)
        else:
            mixer.mix(x)
        local.update()
        newest = copies(x)
        assign(x, state.newest)
        assign(state.newest, newest)
        return state
