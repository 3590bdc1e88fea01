"""D²: decentralized SGD whose error does not grow with how different the replicas' data are.

`x(t+1) = W (2 x(t) - x(t-1) + u(t) - u(t-1))`,  `x(1) = W (x(0) + u(0))`

With `h(t) = x(t) + u(t)`, what the local optimizer made of x(t), that is `x(t+1) = W (h(t) + x(t) - h(t-1))`,
h(-1) = x(0). For plain SGD `u = -lr g`. Needs W symmetric, the same in every round, and its smallest eigenvalue above
-1/3 (`weights=lazy` makes it at least 0). Memory: two copies of the model. Sends, for each step and rank, the model
once to each neighbour. Source: arXiv:1803.07068.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from hvd_gossip.algorithms.base import Algorithm, Local, copies
from hvd_gossip.graphs import Schedule
from hvd_gossip.graphs.spectral import smallest_eigenvalue
from hvd_gossip.mixing import Buffers, Mixer

LEAST = -1 / 3
"""The eigenvalues of W have to be above this."""


class State(NamedTuple):
    """h(t-1)."""

    updated: list[Tensor]


class D2(Algorithm):
    """D-PSGD that takes the last step's disagreement back."""

    name = "d2"
    symmetric = True
    doubly_stochastic = True
    static = True

    def prepare(self, schedule: Schedule) -> Schedule:
        """As it is, once its smallest eigenvalue is known to be above -1/3."""
        schedule = super().prepare(schedule)
        if schedule.n > 1 and (least := smallest_eigenvalue(schedule(0))) <= LEAST + 1e-9:
            raise ValueError(
                f"algorithm {self.name!r} needs the smallest eigenvalue of W above -1/3, got {least:.4f} of "
                f"{schedule.name!r}: give the graph weights=lazy, or use exact_diffusion"
            )
        return schedule

    def init(self, x: Buffers) -> State:
        return State(copies(x))

    def step(self, x: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        before = copies(x)
        local.update()
        updated = copies(x)
        for b, old, last in zip(x, before, state.updated, strict=True):
            b.add_(old).sub_(last)
        mixer.mix(x)
        return State(updated)
