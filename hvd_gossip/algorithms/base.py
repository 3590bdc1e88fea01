"""The contract of a training algorithm.

An algorithm is written once, against `Mixer` and plain tensor arithmetic: the same lines run over MPI, where buffers
hold one replica as [d], and in a simulator, where they hold all replicas stacked as [n, d].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from hvd_gossip.algorithms import requirements
from hvd_gossip.graphs import Schedule
from hvd_gossip.mixing import Buffers, Mixer

State = Any
"""What an algorithm remembers between steps: a named tuple of lists of tensors, numbers and such tuples, or None."""
Rates = Sequence[float | Tensor]
"""The learning rate of each buffer: a number, or a vector [d] where parameters of a buffer have different ones."""


@dataclass(frozen=True)
class Local:
    """What a replica does by itself in one step.

    Attributes:
        update: the local optimizer's own step, `x <- x + u(x, g)`; an algorithm calls it once.
        step: how many steps have been taken before, the same on all replicas.
        rate: the optimizer's learning rates, when called.
    """

    update: Callable[[], None]
    step: int = 0
    rate: Callable[[], Rates] = lambda: ()


class Algorithm(ABC):
    """One step of training seen from the parameters x, the gradient g and the local optimizer's update.

    A step has two halves, so that a user may clip or unscale between them: `gradient`, which may replace g by what
    the optimizer shall see, and `step`, which calls `local.update` once and mixes. Where there is one replica alone
    neither is called: its step is the plain optimizer's.

    Attributes:
        name: what the table calls it.
        centralized: needs the exact mean over all replicas as its mixer, not a graph.
        uses_gradient: `gradient` does something, so gradients have to be gathered into buffers.
        mixes_first: `step` mixes x before `update`, so the gradient must have been taken before `step`, and the mixing
            may go on while it is.
        mixes_last: `step` ends with mixing x, which may go on until x is used again.
        symmetric, doubly_stochastic, static: what W has to be; checked before training.
        between_ranks: asks the mixer for more than means of x, so ranks cannot gossip in groups.
        rounds_wire: whether what is mixed may be rounded to 16 bits on the wire.
        brings_momentum: has a momentum of its own, so the local optimizer must have none.
        skips: a step may be the plain local update without harm, so `every` may wrap it.
    """

    name: str = "an algorithm of one's own"
    centralized: ClassVar[bool] = False
    uses_gradient: bool = False
    mixes_first: bool = False
    mixes_last: bool = False
    symmetric: bool = False
    doubly_stochastic: bool = False
    static: bool = False
    between_ranks: bool = False
    rounds_wire: bool = True
    brings_momentum: bool = False
    skips: bool = False

    def prepare(self, schedule: Schedule) -> Schedule:
        """The schedule to mix with when the user asks for this one.

        Raises:
            ValueError: its matrices are not what the method needs.
        """
        requirements.check(self, schedule)
        return schedule

    def rounds(self, step: int) -> int:
        """The round of the schedule that a step belongs to: how many steps before it have mixed."""
        return step

    def init(self, x: Buffers) -> State:
        """The state before the first step."""
        return None

    def gradient(self, x: Buffers, g: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        """Replace g in place by the direction that the local optimizer shall use."""
        return state

    @abstractmethod
    def step(self, x: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        """Move x in place."""


def copies(x: Buffers) -> list[Tensor]:
    """The values of x in memory of their own."""
    return [buffer.clone() for buffer in x]


def assign(x: Buffers, values: Buffers) -> None:
    """`x <- values` in place."""
    for buffer, value in zip(x, values, strict=True):
        buffer.copy_(value)


def mixed(values: list[Tensor], mixer: Mixer) -> list[Tensor]:
    """The same list after mixing."""
    mixer.mix(values)
    return values
