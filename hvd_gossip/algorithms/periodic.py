"""Averages now and then: gossip in every h-th step, and a global average in every h-th step of another method.

every:                   `x <- x + u(x, g)`, and the wrapped method's step when h divides t + 1
global average every:    the wrapped method's step, and `x <- 11^T/n (x + u(x, g))` when h divides t + 1

Local SGD is the global average every h steps of replicas that do not gossip; Gossip-PGA is that of D-PSGD. Assumes what
the wrapped method does. Memory: that of the wrapped method. Sends, for each step and rank, 1/h of what the wrapped
method does; a global average `2 (n - 1)/n` of the model.
Sources: arXiv:1805.09767 (local SGD), arXiv:2105.09080 (Gossip-PGA).
"""

from __future__ import annotations

import dataclasses

from hvd_gossip.algorithms.base import Algorithm, Local, State
from hvd_gossip.algorithms.requirements import check_count
from hvd_gossip.graphs import Schedule
from hvd_gossip.mixing import Buffers, Mixer

INHERITED = ("symmetric", "doubly_stochastic", "static", "between_ranks", "rounds_wire", "skips")


class Periodic(Algorithm):
    """What both wrappers have in common.

    Args:
        h: the period in steps, at least 1.
        of: the wrapped method, one that has no harm from steps that are local updates alone.

    Raises:
        ValueError: a period below 1, or a method that cannot be wrapped.
    """

    def __init__(self, h: int, of: Algorithm) -> None:
        self.h, self.of = check_count(self.name, "h", h), of
        if not of.skips:
            raise ValueError(
                f"algorithm {self.name!r} cannot wrap {of.name!r}, which carries something from each step to the next: "
                "expected dpsgd, partial_mixing, choco, solo, or a wrapper of them"
            )
        for told in INHERITED:
            setattr(self, told, getattr(of, told))

    def prepare(self, schedule: Schedule) -> Schedule:
        return self.of.prepare(schedule)

    def init(self, x: Buffers) -> State:
        return self.of.init(x)

    def due(self, step: int) -> bool:
        """Whether the period ends with this step."""
        return (step + 1) % self.h == 0


class Every(Periodic):
    """The wrapped method in every h-th step, local updates between."""

    name = "every"

    def rounds(self, step: int) -> int:
        return self.of.rounds(step // self.h)

    def step(self, x: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        if self.due(local.step):
            return self.of.step(x, dataclasses.replace(local, step=local.step // self.h), mixer, state)
        local.update()
        return state


class GlobalAverageEvery(Periodic):
    """The wrapped method, and the average over all replicas in its place in every h-th step."""

    name = "global_average_every"

    def rounds(self, step: int) -> int:
        return self.of.rounds(step)

    def step(self, x: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        if not self.due(local.step):
            return self.of.step(x, local, mixer, state)
        local.update()
        mixer.mean(x)
        return state
