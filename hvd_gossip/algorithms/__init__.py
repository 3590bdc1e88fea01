"""Training algorithms, one paper to a file, each written once against the Mixer protocol."""

from __future__ import annotations

from hvd_gossip.algorithms.base import Algorithm, Local
from hvd_gossip.algorithms.solo import Solo
from hvd_gossip.algorithms.table import ALGORITHMS, algorithm

__all__ = ["ALGORITHMS", "Algorithm", "Local", "Solo", "algorithm"]
