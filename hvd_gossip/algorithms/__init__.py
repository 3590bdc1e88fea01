"""Training algorithms, one paper to a file, each written once against the Mixer protocol."""

from __future__ import annotations

from collections.abc import Callable

from hvd_gossip import specification
from hvd_gossip.algorithms.allreduce import Allreduce
from hvd_gossip.algorithms.base import Algorithm
from hvd_gossip.algorithms.dpsgd import DPSGD

ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "allreduce": Allreduce,
    "dpsgd": DPSGD,
}

__all__ = ["ALGORITHMS", "DPSGD", "Algorithm", "Allreduce", "algorithm"]


def algorithm(name: str | Algorithm) -> Algorithm:
    """The algorithm that a user's `algorithm` argument means: `"dpsgd"`, `"dpsgd:order=awc"`, or one of their own.

    Raises:
        ValueError: unknown name, option or value.

    Example:
        >>> algorithm("dpsgd:order=awc").order
        'awc'
    """
    if isinstance(name, Algorithm):
        return name
    return specification.build("algorithm", name, ALGORITHMS)
