"""Every replica for itself: no communication at all, the other end of the scale from the complete graph.

`x <- x + u(x, g)`

Memory: none. Sends nothing. Source: arXiv:2206.03093 (the baseline "solo").
"""

from __future__ import annotations

from hvd_gossip.algorithms.base import Algorithm, Local, State
from hvd_gossip.mixing import Buffers, Mixer


class Solo(Algorithm):
    """The local update alone."""

    name = "solo"
    skips = True

    def step(self, x: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        local.update()
        return state
