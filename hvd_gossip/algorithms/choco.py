"""CHOCO-SGD: replicas send compressed differences, and average what they know of each other.

`x <- x + u(x, g)`,  `q = C(x - v)`,  `v <- v + q`,  `s <- s + W q`,  `x <- x + gamma (s - v)`

v is the public copy of x, which all neighbours can follow from q alone, and s = W v; both start from 0. The mean of all
x moves with the updates only. Needs W symmetric and the same in every round, and a compressor that is a contraction.
Memory: four copies of the model. Sends, for each step and rank, the bytes of q to each neighbour.
Source: arXiv:1902.00340.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hvd_gossip.algorithms.base import Algorithm, Local
from hvd_gossip.algorithms.requirements import check_number
from hvd_gossip.comm.compress import compressor as find_compressor
from hvd_gossip.mixing import Buffers, Mixer


class State(NamedTuple):
    """v and s."""

    public: list[Tensor]
    heard: list[Tensor]


class Choco(Algorithm):
    """D-PSGD with any compressor.

    Args:
        compressor: such as "top_k:fraction=0.01" (several options in parentheses), or a `Compressor`.
        gamma: the step towards the neighbours, above 0 and at most 1; the less, the rougher the compressor.

    Raises:
        ValueError: unknown compressor, one that is no contraction, or gamma out of bounds.
    """

    name = "choco"
    symmetric = True
    doubly_stochastic = True
    static = True
    between_ranks = True
    rounds_wire = False
    skips = True

    def __init__(self, compressor: str = "top_k:fraction=0.1", gamma: float = 0.5) -> None:
        self.compressor = find_compressor(compressor)
        if not self.compressor.contraction:
            raise ValueError(f"algorithm 'choco' needs a contraction as its compressor, got {compressor!r}")
        self.gamma = check_number(self.name, "gamma", gamma, 1e-6, 1)

    def init(self, x: Buffers) -> State:
        return State([torch.zeros_like(b) for b in x], [torch.zeros_like(b) for b in x])

    def step(self, x: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        local.update()
        news = [b - v for b, v in zip(x, state.public, strict=True)]
        sent, received = mixer.mix_compressed(news, self.compressor, local.step * len(x))
        for b, v, s, q, wq in zip(x, *state, sent, received, strict=True):
            v.add_(q)
            s.add_(wq.to(s.dtype))
            b.add_(s - v, alpha=self.gamma)
        return state
