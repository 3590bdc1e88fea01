"""D-PSGD: each replica takes a local step and averages with its neighbours.

adapt then combine (atc):          `x <- W (x + u(x, g))`
adapt while communicate (awc):     `x <- W x + u(W x, g)`,  g taken at the unmixed x

For plain SGD `u = -lr g`, and awc is `X <- W X - lr G(X)`. Assumes W doubly stochastic, else the replicas drift to a
weighted mean (a warning says to which). Memory: none beyond the model. Sends, for each step and rank, the model once to
each out-neighbour. Source: arXiv:1705.09056.
"""

from __future__ import annotations

from hvd_gossip import specification
from hvd_gossip.algorithms.base import Algorithm, Local, State
from hvd_gossip.mixing import Buffers, Mixer

ORDERS = ("atc", "awc")


class DPSGD(Algorithm):
    """Local update and neighbourhood average, in either order.

    Args:
        order: "atc" (update, then mix) or "awc" (mix, then update with the gradient of the unmixed point).

    Raises:
        ValueError: another order.
    """

    name = "dpsgd"
    skips = True

    def __init__(self, order: str = "atc") -> None:
        specification.choose("order", order, ORDERS)
        self.order = order
        self.mixes_first, self.mixes_last = order == "awc", order == "atc"

    def step(self, x: Buffers, local: Local, mixer: Mixer, state: State) -> State:
        if self.order == "awc":
            mixer.mix(x)
            local.update()
        else:
            local.update()
            mixer.mix(x)
        return state
