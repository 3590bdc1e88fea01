"""The names of the compressors."""

from __future__ import annotations

from collections.abc import Callable

import torch

from hvd_gossip import specification
from hvd_gossip.comm.compress.base import Compressor
from hvd_gossip.comm.compress.low_rank import LowRank
from hvd_gossip.comm.compress.quantized import Rounding, Sign
from hvd_gossip.comm.compress.sparse import RandomK, TopK

COMPRESSORS: dict[str, Callable[..., Compressor]] = {
    "none": lambda: Rounding(),
    "bf16": lambda: Rounding(torch.bfloat16),
    "fp16": lambda: Rounding(torch.float16),
    "top_k": TopK,
    "random_k": RandomK,
    "sign": Sign,
    "low_rank": LowRank,
}


def compressor(spec: str | Compressor) -> Compressor:
    """The compressor that a text names.

    Args:
        spec: `"sign"`, `"top_k:fraction=0.01"`, …, or a compressor, which is returned as it is.

    Raises:
        ValueError: unknown name, option or value.

    Example:
        >>> compressor("top_k:fraction=0.01").nbytes(1000, torch.float32)
        80
    """
    return spec if isinstance(spec, Compressor) else specification.build("compressor", spec, COMPRESSORS)
