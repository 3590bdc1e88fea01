"""Stochastic gradient push: replicas push shares to whom they like, and a weight tells what a sum is worth.

`z <- P (z + u(x, g))`,  `w <- P w`,  `x = z/w`, from w = 1

P is column-stochastic: replica j keeps a share 1/(e_j + 1) of what it has and pushes as much to each of the e_j others
that hear it, so sums over all replicas are kept on any graph, directed, uneven or changing; rows need not sum to 1, and
the graph's own weights do not matter. Where all degrees are equal w stays 1, and this is D-PSGD.

Overlapped, what was pushed arrives one step later: `z(t+1) = P_ii h(t) + sum_j P_ij h_j(t-1)`, h = z + u, and w alike;
what is on its way belongs to the sum. Gradients and optimizer see the model x; u is added to z, as in the paper.

Needs a strongly connected graph. Memory: one copy of the model, three when overlapped. Sends, for each step and rank,
the model and 8 bytes to each out-neighbour. Source: arXiv:1811.10792.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hvd_gossip.algorithms.base import Algorithm, Local, copies
from hvd_gossip.algorithms.requirements import check_flag
from hvd_gossip.graphs import Schedule
from hvd_gossip.graphs.derived import pushing
from hvd_gossip.mixing import Buffers, Mixer


class State(NamedTuple):
    """w, as one more buffer, and what is on its way: buffers, w last, or none where nothing is overlapped."""

    weight: Tensor
    arriving: list[Tensor]


class PushSum(Algorithm):
    """SGP, on the edges of any graph.

    Args:
        overlap: whether what is pushed arrives one step later.

    Raises:
        ValueError: overlap is neither true nor false.
    """

    name = "push_sum"
    rounds_wire = False

    def __init__(self, overlap: bool = False) -> None:
        self.overlap = self.between_ranks = check_flag(self.name, "overlap", overlap)

    def prepare(self, schedule: Schedule) -> Schedule:
        """The column-stochastic weights of its edges."""
        return pushing(schedule)

    def init(self, x: Buffers) -> State:
        weight = torch.ones(*x[0].shape[:-1], 1, dtype=torch.float64, device=x[0].device)
        return State(weight, [torch.zeros_like(b) for b in (*x, weight)] if self.overlap else [])

    def step(self, x: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        before = copies(x)
        local.update()
        weight = state.weight.clone()
        for b, old in zip(x, before, strict=True):
            b.add_(old * (weight - 1).to(b.dtype))
        del before
        state = self._late(x, weight, mixer, state) if self.overlap else self._push(x, weight, mixer)
        for b in x:
            b.div_(state.weight.to(b.dtype))
        return state

    def _push(self, z: Buffers, weight: Tensor, mixer: Mixer) -> State:
        mixer.mix(z)
        mixer.mix([weight])
        return State(weight, [])

    def _late(self, z: Buffers, weight: Tensor, mixer: Mixer, state: State) -> State:
        """`z <- P_ii z + what arrives`; what is pushed now arrives next time."""
        kept = [b * torch.as_tensor(mixer.self_weight(), dtype=b.dtype, device=b.device) for b in (*z, weight)]
        self._push(z, weight, mixer)
        pushed = [b - own for b, own in zip((*z, weight), kept, strict=True)]
        for b, own, late in zip((*z, weight), kept, state.arriving, strict=True):
            torch.add(own, late, out=b)
        return State(weight, pushed)
