"""The names of the algorithms."""

from __future__ import annotations

from collections.abc import Callable

from hvd_gossip import specification
from hvd_gossip.algorithms.adaptive_period import AdaptivePeriod
from hvd_gossip.algorithms.allreduce import Allreduce
from hvd_gossip.algorithms.base import Algorithm
from hvd_gossip.algorithms.choco import Choco
from hvd_gossip.algorithms.d2 import D2
from hvd_gossip.algorithms.dasgd import DaSGD
from hvd_gossip.algorithms.decentlam import DecentLaM
from hvd_gossip.algorithms.delayed import Delayed
from hvd_gossip.algorithms.dpsgd import DPSGD
from hvd_gossip.algorithms.exact_diffusion import ExactDiffusion
from hvd_gossip.algorithms.gradient_tracking import GradientTracking
from hvd_gossip.algorithms.partial_mixing import PartialMixing
from hvd_gossip.algorithms.periodic import Every, GlobalAverageEvery
from hvd_gossip.algorithms.push_sum import PushSum
from hvd_gossip.algorithms.quasi_global import QuasiGlobal
from hvd_gossip.algorithms.solo import Solo


def every(h: int, of: str = "dpsgd") -> Algorithm:
    """Another method in every h-th step, local updates between."""
    return Every(h, algorithm(of))


def global_average_every(h: int, of: str = "dpsgd") -> Algorithm:
    """Another method, with an average over all replicas in every h-th step."""
    return GlobalAverageEvery(h, algorithm(of))


def local_sgd(h: int = 4) -> Algorithm:
    """Local updates, and an average over all replicas in every h-th step."""
    return GlobalAverageEvery(h, Solo())


def gossip_pga(h: int = 6, order: str = "atc") -> Algorithm:
    """D-PSGD with an average over all replicas in every h-th step; h = 6 is the paper's."""
    return GlobalAverageEvery(h, DPSGD(order))


ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "adaptive_period": AdaptivePeriod,
    "allreduce": Allreduce,
    "choco": Choco,
    "d2": D2,
    "dasgd": DaSGD,
    "decentlam": DecentLaM,
    "delayed": Delayed,
    "dpsgd": DPSGD,
    "every": every,
    "exact_diffusion": ExactDiffusion,
    "global_average_every": global_average_every,
    "gossip_pga": gossip_pga,
    "gradient_tracking": GradientTracking,
    "local_sgd": local_sgd,
    "partial_mixing": PartialMixing,
    "push_sum": PushSum,
    "quasi_global": QuasiGlobal,
    "solo": Solo,
}


def algorithm(name: str | Algorithm) -> Algorithm:
    """The algorithm that a user's `algorithm` argument means: `"dpsgd"`, `"dpsgd:order=awc"`, or one of their own.

    Raises:
        ValueError: unknown name, option or value.

    Example:
        >>> algorithm("dpsgd:order=awc").order
        'awc'
        >>> algorithm("every:h=4,of=(choco:compressor=sign,gamma=0.3)").of.gamma
        0.3
    """
    return name if isinstance(name, Algorithm) else specification.build("algorithm", name, ALGORITHMS)
