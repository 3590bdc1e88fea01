"""The learning rate as a factor of its scaled value: warm-up, then decay."""

from __future__ import annotations

import math
from collections.abc import Callable

from hvd_gossip.train.config import RateConfig

SCALING: dict[str, Callable[[int], float]] = {
    "linear": float,
    "sqrt": math.sqrt,
    "none": lambda n: 1.0,
}


def scale(config: RateConfig, n: int) -> float:
    """What the base rate is multiplied by for n replicas. Source: arXiv:1706.02677 (linear), arXiv:1404.5997 (sqrt)."""
    return SCALING[config.scaling](n)


def factor(config: RateConfig, n: int, steps_per_epoch: int, steps: int) -> Callable[[int], float]:
    """The rate of step t over the scaled rate, for torch's LambdaLR.

    Warm-up over w steps: `1/s + (1 - 1/s) t/w` with s the scale; then the cosine `(1 + cos(pi p))/2`, or the factor
    to the power of milestones passed; p is the part of the steps after the warm-up that is done.
    """
    warmup = round(min((config.warmup_epochs or 0.0) * steps_per_epoch, steps))
    scaled = scale(config, n)

    def at(step: int) -> float:
        if step < warmup:
            return 1 / scaled + (1 - 1 / scaled) * step / warmup
        if config.decay == "cosine":
            return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1, steps - warmup))))
        if config.decay == "step":
            return config.factor ** sum(step >= milestone * steps for milestone in config.milestones)
        return 1.0

    return at
