"""Compressors for methods that send differences, and the memory of what they leave out.

A compressor C turns a vector into bytes, as many on every rank, and the bytes into C(x), of the same length. Each is a
contraction, `||x - C(x)||^2 <= (1 - delta) ||x||^2`, which is what error feedback and CHOCO-SGD ask for.
Sources: arXiv:1902.00340 (CHOCO-SGD), arXiv:1901.09847 (error feedback).
"""

from __future__ import annotations

from hvd_gossip.comm.compress.base import Compressor
from hvd_gossip.comm.compress.error_feedback import ErrorFeedback
from hvd_gossip.comm.compress.low_rank import LowRank
from hvd_gossip.comm.compress.quantized import Rounding, Sign
from hvd_gossip.comm.compress.sparse import RandomK, TopK
from hvd_gossip.comm.compress.table import COMPRESSORS, compressor

__all__ = ["COMPRESSORS", "Compressor", "ErrorFeedback", "LowRank", "RandomK", "Rounding", "Sign", "TopK", "compressor"]
