"""Compressors for methods that send differences, and the memory of what they leave out.

A compressor C turns a vector into bytes, as many on every rank, and the bytes into C(x), of the same length. Each is a
contraction, `||x - C(x)||^2 <= (1 - delta) ||x||^2`, which is what error feedback and CHOCO-SGD ask for.
Sources: arXiv:1902.00340 (CHOCO-SGD), arXiv:1901.09847 (error feedback).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hvd_gossip import specification
from hvd_gossip.graphs.seeds import generator
from hvd_gossip.mixing import accumulation_dtype, rounded


class Compressor(ABC):
    """A vector as bytes, and back. `seed` is the same on all ranks in one round; what a compressor draws follows it."""

    @abstractmethod
    def nbytes(self, length: int, dtype: torch.dtype) -> int:
        """Bytes of a vector of so many numbers."""

    @abstractmethod
    def encode(self, x: Tensor, seed: int) -> Tensor:
        """The bytes of C(x): a uint8 vector; x, of any real floating-point dtype, stays as it is."""

    @abstractmethod
    def decode(self, payload: Tensor, out: Tensor, seed: int) -> Tensor:
        """Write C(x) to `out`, a vector like x; returns it."""


class Rounding(Compressor):
    """Each number rounded to a shorter one; delta = 1 - eps^2/4 with eps the relative spacing of the short ones.

    Args:
        dtype: the short format, or None for numbers as they are (delta = 1).

    Example:
        >>> compressor("bf16").nbytes(10, torch.float32)
        20
    """

    def __init__(self, dtype: torch.dtype | None = None) -> None:
        self._dtype = dtype

    def _wire(self, dtype: torch.dtype) -> torch.dtype:
        return self._dtype if self._dtype is not None and self._dtype.itemsize < dtype.itemsize else dtype

    def nbytes(self, length: int, dtype: torch.dtype) -> int:
        return length * self._wire(dtype).itemsize

    def encode(self, x: Tensor, seed: int) -> Tensor:
        return as_bytes(rounded(x, self._wire(x.dtype)).clone())

    def decode(self, payload: Tensor, out: Tensor, seed: int) -> Tensor:
        return out.copy_(payload.view(self._wire(out.dtype)))


class Sparse(Compressor):
    """A fraction of the entries, as values and, where they are not known to all, places."""

    def __init__(self, fraction: float) -> None:
        if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 < fraction <= 1:
            raise ValueError(f"got fraction = {fraction!r}: expected a number above 0 and at most 1")
        self.fraction = fraction

    def count(self, length: int) -> int:
        """How many entries are sent: `max(1, ceil(fraction length))`, none of none."""
        return min(length, max(1, math.ceil(self.fraction * length))) if length else 0


class TopK(Sparse):
    """The k entries of largest modulus, and where they stand; delta = k/d. Entries that are not finite come first.

    Args:
        fraction: k/d.

    Raises:
        ValueError: not a fraction.

    Example:
        >>> c, x = compressor("top_k:fraction=0.5"), torch.tensor([3.0, -1.0, -4.0, 2.0])
        >>> c.decode(c.encode(x, 0), torch.empty(4), 0).tolist()
        [3.0, 0.0, -4.0, 0.0]

    Source: arXiv:1809.07599.
    """

    def __init__(self, fraction: float = 0.01) -> None:
        super().__init__(fraction)

    def nbytes(self, length: int, dtype: torch.dtype) -> int:
        return self.count(length) * (dtype.itemsize + place_dtype(length).itemsize)

    def encode(self, x: Tensor, seed: int) -> Tensor:
        size = x.to(accumulation_dtype(x.dtype)).abs().nan_to_num_(nan=math.inf)
        places = torch.topk(size, self.count(len(x)), sorted=False).indices.sort().values
        return torch.cat([as_bytes(places.to(place_dtype(len(x)))), as_bytes(x[places])])

    def decode(self, payload: Tensor, out: Tensor, seed: int) -> Tensor:
        k = self.count(len(out))
        width = k * place_dtype(len(out)).itemsize
        places = payload[:width].clone().view(place_dtype(len(out))).long()
        out.zero_()[places] = payload[width:].clone().view(out.dtype)
        return out


class RandomK(Sparse):
    """k entries drawn by the seed, the same on all ranks, so that their places need not travel; delta = k/d on average.

    Entries are drawn one in each of k equal stretches of the vector. A value that is not finite is seen only when it is
    drawn.

    Args:
        fraction: k/d.
        unbiased: whether values are multiplied by d/k, so that `E C(x) = x`; it is no contraction then.

    Raises:
        ValueError: not a fraction.

    Source: arXiv:1809.07599.
    """

    def __init__(self, fraction: float = 0.01, unbiased: bool = False) -> None:
        super().__init__(fraction)
        self.unbiased = unbiased

    def nbytes(self, length: int, dtype: torch.dtype) -> int:
        return self.count(length) * dtype.itemsize

    def _places(self, length: int, seed: int) -> tuple[Tensor, Tensor]:
        """Places of the entries, and how many each of them stands for."""
        k = self.count(length)
        ends = np.arange(k + 1, dtype=np.int64) * length // max(1, k)
        widths = np.diff(ends)
        drawn = ends[:-1] + (generator("random_k", seed).random_sample(k) * widths).astype(np.int64)
        return torch.from_numpy(drawn), torch.from_numpy(widths)

    def encode(self, x: Tensor, seed: int) -> Tensor:
        return as_bytes(x[self._places(len(x), seed)[0]])

    def decode(self, payload: Tensor, out: Tensor, seed: int) -> Tensor:
        places, widths = self._places(len(out), seed)
        values = payload.view(out.dtype)
        out.zero_()[places] = values * widths.to(out.dtype) if self.unbiased else values
        return out


class Sign(Compressor):
    """The signs, times the mean modulus: `||x||_1/d sign(x)`, sign(0) = 1; `delta = ||x||_1^2/(d ||x||^2)`.

    Source: arXiv:1901.09847.
    """

    def nbytes(self, length: int, dtype: torch.dtype) -> int:
        return (length + 7) // 8 + accumulation_dtype(dtype).itemsize if length else 0

    def encode(self, x: Tensor, seed: int) -> Tensor:
        if not len(x):
            return x.new_empty(0, dtype=torch.uint8)
        scale = x.to(accumulation_dtype(x.dtype)).abs().mean(dtype=accumulation_dtype(x.dtype)).reshape(1)
        bits = np.packbits((x >= 0).numpy(), bitorder="little")
        return torch.cat([as_bytes(scale), torch.from_numpy(bits)])

    def decode(self, payload: Tensor, out: Tensor, seed: int) -> Tensor:
        if not len(out):
            return out
        width = accumulation_dtype(out.dtype).itemsize
        scale = payload[:width].clone().view(accumulation_dtype(out.dtype))
        bits = np.unpackbits(payload[width:].numpy(), count=len(out), bitorder="little")
        return out.copy_(torch.from_numpy(bits)).mul_(2).sub_(1).mul_(scale.to(out.dtype))


class LowRank(Compressor):
    """The vector as a matrix, as square as can be, of low rank by one step of power iteration; never expansive.

    `P = orth(M Q_0)`, `C(M) = P (P^T M)`: a projection, Q_0 drawn by the seed. Factors travel in float32, or float64.

    Args:
        rank: of the matrix.

    Raises:
        ValueError: not an integer of at least 1.

    Source: arXiv:1905.13727 (PowerSGD), here for each replica by itself.
    """

    def __init__(self, rank: int = 2) -> None:
        if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
            raise ValueError(f"got rank = {rank!r}: expected an integer of at least 1")
        self.rank = rank

    def _shape(self, length: int) -> tuple[int, int, int]:
        rows = math.isqrt(length - 1) + 1 if length else 0
        columns = -(-length // rows) if rows else 0
        return rows, columns, min(self.rank, rows, columns)

    def nbytes(self, length: int, dtype: torch.dtype) -> int:
        rows, columns, rank = self._shape(length)
        return (rows + columns) * rank * accumulation_dtype(dtype).itemsize

    def encode(self, x: Tensor, seed: int) -> Tensor:
        rows, columns, rank = self._shape(len(x))
        matrix = x.new_zeros(rows * columns, dtype=accumulation_dtype(x.dtype))
        matrix[: len(x)] = x
        matrix = matrix.view(rows, columns)
        start = torch.from_numpy(generator("low_rank", seed).standard_normal((columns, rank)))
        if not bool(matrix.isfinite().all()):
            return as_bytes(matrix.new_full(((rows + columns) * rank,), math.nan))
        left = torch.linalg.qr(matrix @ start.to(matrix.dtype)).Q
        return torch.cat([as_bytes(left.flatten()), as_bytes((matrix.T @ left).flatten())])

    def decode(self, payload: Tensor, out: Tensor, seed: int) -> Tensor:
        rows, columns, rank = self._shape(len(out))
        factors = payload.clone().view(accumulation_dtype(out.dtype))
        left, right = factors[: rows * rank].view(rows, rank), factors[rows * rank :].view(columns, rank)
        return out.copy_((left @ right.T).flatten()[: len(out)])


COMPRESSORS: dict[str, Callable[..., Compressor]] = {
    "none": lambda: Rounding(),
    "bf16": lambda: Rounding(torch.bfloat16),
    "fp16": lambda: Rounding(torch.float16),
    "top_k": TopK,
    "random_k": RandomK,
    "sign": Sign,
    "low_rank": LowRank,
}


def compressor(told: str | Compressor) -> Compressor:
    """The compressor that a user means: `"sign"`, `"top_k:fraction=0.01"`, or one of their own.

    Raises:
        ValueError: unknown name, option or value.
    """
    return told if isinstance(told, Compressor) else specification.build("compressor", told, COMPRESSORS)


class ErrorFeedback:
    """A compressor with a memory of what it has left out: `p = x + e`, sends C(p), `e <- p - C(p)`.

    What has been sent in all, and the memory, make up what has been given: `sum x = sum C(p) + e`.

    Args:
        told: a compressor or its name.

    Example:
        >>> feedback, x, sent = ErrorFeedback("top_k:fraction=0.5"), torch.tensor([1.0, 3.0]), torch.empty(2)
        >>> [feedback.compressor.decode(feedback.encode(x, t), sent, t).tolist() for t in range(2)]
        [[0.0, 3.0], [0.0, 3.0]]
        >>> feedback.residual.tolist()
        [2.0, 0.0]

    Source: arXiv:1901.09847.
    """

    def __init__(self, told: str | Compressor) -> None:
        self.compressor = compressor(told)
        self.residual: Tensor | None = None

    def encode(self, x: Tensor, seed: int) -> Tensor:
        """The bytes of C(x + e); e is updated."""
        if self.residual is None:
            self.residual = torch.zeros_like(x, dtype=accumulation_dtype(x.dtype))
        wanted = self.residual.add_(x)
        payload = self.compressor.encode(wanted.to(x.dtype), seed)
        wanted.sub_(self.compressor.decode(payload, torch.empty_like(x), seed))
        return payload

    def state_dict(self) -> dict[str, Any]:
        """What has to be saved for an exact resumption."""
        return {"residual": self.residual}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was taken."""
        self.residual = state["residual"]


def place_dtype(length: int) -> torch.dtype:
    """The integer in which a place in a vector travels."""
    return torch.int32 if length < 2**31 else torch.int64


def as_bytes(x: Tensor) -> Tensor:
    """A vector's memory as bytes."""
    return x.contiguous().view(torch.uint8)
