"""Compressors that keep all entries with fewer bits."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from hvd_gossip.comm.compress.base import CHUNK, Compressor, as_bytes, empty, new_bytes, numbers, store
from hvd_gossip.mixing import accumulation_dtype

BITS = (torch.arange(256)[:, None] >> torch.arange(8)) % 2 == 1
"""The bits of each byte, lowest first: bool [256, 8]."""


class Rounding(Compressor):
    """Each number rounded to the nearest of a shorter format.

    `delta >= 1 - eps^2/4` where no number leaves the normal range of the format, with eps its relative spacing (2^-7
    for bfloat16, 2^-10 for float16); else delta >= 0, as what is too large becomes the largest number, and what is too
    small 0. delta = 1 for numbers that are as short already, which travel as they are. NaN and infinities stay.

    Args:
        dtype: the short format, torch.bfloat16 or torch.float16, or None for numbers as they are.

    Raises:
        ValueError: another format.

    Example:
        >>> c, x = Rounding(torch.float16), torch.tensor([0.1, 1e6])
        >>> c.decode(c.encode(x, 0), torch.empty(2), 0).tolist()
        [0.0999755859375, 65504.0]

    Source: doi:10.1109/IEEESTD.2019.8766229 (IEEE 754).
    """

    def __init__(self, dtype: torch.dtype | None = None) -> None:
        if dtype not in (None, torch.bfloat16, torch.float16):
            raise ValueError(f"got dtype = {dtype}: expected torch.bfloat16, torch.float16 or None")
        self._dtype = dtype

    def _wire(self, dtype: torch.dtype) -> torch.dtype:
        return self._dtype if self._dtype is not None and self._dtype.itemsize < dtype.itemsize else dtype

    def _nbytes(self, length: int, dtype: torch.dtype) -> int:
        return length * self._wire(dtype).itemsize

    def _encode(self, x: Tensor, seed: int) -> Tensor:
        return as_bytes(store(empty(len(x), self._wire(x.dtype)), x))

    def _decode(self, payload: Tensor, out: Tensor, seed: int) -> None:
        out.copy_(numbers(payload, self._wire(out.dtype)))


class Sign(Compressor):
    """The signs, one bit each, times the mean modulus, in float32 or, for float64, in float64.

    `C(x) = ||x||_1/d sign(x)` with sign(0) = sign(-0) = +1, and `delta = ||x||_1^2/(d ||x||^2)`.

    With a NaN or an infinity in x, no number of C(x) is finite.

    Example:
        >>> c, x = Sign(), torch.tensor([3.0, -1.0, 0.0, -4.0])
        >>> c.decode(c.encode(x, 0), torch.empty(4), 0).tolist()
        [2.0, -2.0, 2.0, -2.0]

    Source: arXiv:1901.09847, arXiv:1809.07599.
    """

    def _nbytes(self, length: int, dtype: torch.dtype) -> int:
        return accumulation_dtype(dtype).itemsize + (length + 7) // 8

    def _encode(self, x: Tensor, seed: int) -> Tensor:
        payload, dtype = new_bytes(self._nbytes(len(x), x.dtype)), accumulation_dtype(x.dtype)
        payload[: dtype.itemsize] = as_bytes(torch.tensor([mean_modulus(x)], dtype=dtype))
        payload[dtype.itemsize :] = torch.from_numpy(np.packbits((x >= 0).numpy(), bitorder="little"))
        return payload

    def _decode(self, payload: Tensor, out: Tensor, seed: int) -> None:
        dtype, whole = accumulation_dtype(out.dtype), len(out) // 8
        scale, signs = numbers(payload[: dtype.itemsize], dtype), payload[dtype.itemsize :].int()
        table = torch.where(BITS, scale, -scale).to(out.dtype)
        torch.index_select(table, 0, signs[:whole], out=out[: 8 * whole].view(whole, 8))
        out[8 * whole :] = table[signs[-1]][: len(out) % 8]


def mean_modulus(x: Tensor) -> float:
    """`||x||_1/d`, summed in float64, so that the mean of equal numbers of at most 32 bits is exact."""
    return sum(float(part.abs().sum(dtype=torch.float64)) for part in x.split(CHUNK)) / len(x)
