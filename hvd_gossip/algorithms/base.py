"""The contract of a training algorithm.

An algorithm is written once, against `Mixer` and plain tensor arithmetic: the same lines run over MPI, where buffers
hold one replica, and in a simulator, where they hold all replicas stacked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from hvd_gossip.mixing import Buffers, Mixer

State = Any
"""What an algorithm remembers between steps: a named tuple of buffers, or None."""


class Algorithm(ABC):
    """One step of training seen from the parameters x, the gradient g and the local optimizer's update.

    A step has two halves, so that a user may clip or unscale between them: `gradient`, which may replace g by what
    the optimizer shall see, and `step`, which calls `update` once and mixes.

    Attributes:
        centralized: needs the exact mean over all replicas as its mixer, not a graph.
        uses_gradient: `gradient` does something, so gradients have to be gathered into buffers.
        mixes_first: `step` mixes x before `update`, so the gradient must have been taken before `step`, and the mixing
            may go on while it is.
        mixes_last: `step` ends with mixing x, which may go on until x is used again.
    """

    centralized: ClassVar[bool] = False
    uses_gradient: ClassVar[bool] = False
    mixes_first: bool = False
    mixes_last: bool = False

    def init(self, x: Buffers) -> State:
        """The state before the first step."""
        return None

    def gradient(self, x: Buffers, g: Buffers, mixer: Mixer, state: State) -> State:
        """Replace g in place by the direction that the local optimizer shall use."""
        return state

    @abstractmethod
    def step(self, x: Buffers, update: Callable[[], None], mixer: Mixer, state: State) -> State:
        """Move x in place; `update()` is the local optimizer's own step, `x <- x + u(x, g)`."""
