"""Exact diffusion: D² with half of every step towards the neighbours, for any symmetric W.

`h(t) = x(t) + u(t)`,  `x(t+1) = (I + W)/2 (h(t) + x(t) - h(t-1))`,  h(-1) = x(0)

Needs W symmetric and the same in every round. Memory: two copies of the model. Sends, for each step and rank, the model
once to each neighbour. Source: arXiv:1702.05122.
"""

from __future__ import annotations

from hvd_gossip.algorithms import requirements
from hvd_gossip.algorithms.d2 import D2
from hvd_gossip.graphs import Schedule
from hvd_gossip.graphs.derived import lazy


class ExactDiffusion(D2):
    """The steps of D² on (I + W)/2, no eigenvalue of which is negative."""

    name = "exact_diffusion"

    def prepare(self, schedule: Schedule) -> Schedule:
        """`(I + W)/2`."""
        requirements.check(self, schedule)
        return lazy(schedule) if schedule.n > 1 else schedule
