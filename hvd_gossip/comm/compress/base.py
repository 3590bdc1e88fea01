"""What all compressors share: the checks, complex numbers as pairs of real ones, and vectors as bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)
CHUNK = 1 << 16
"""Numbers that are worked on at a time: what is computed for them stays in the cache."""


class Compressor(ABC):
    """A vector as bytes, and back.

    `||x - C(x)||^2 <= (1 - delta) ||x||^2`, and where x has a NaN or an infinity, C(x) has one too.

    Vectors are contiguous and in main memory. Of a complex vector, real and imaginary parts are compressed in turn, as
    one real vector of twice the length. Subclasses give `_nbytes`, `_encode` and `_decode`, which see real vectors of
    at least one number only.

    Attributes:
        contraction: whether the inequality holds with delta >= 0.
    """

    contraction: bool = True

    def nbytes(self, length: int, dtype: torch.dtype) -> int:
        """Bytes of the payload of a vector of so many numbers; 0 for none.

        Raises:
            ValueError: a negative length, or not a dtype of floating-point or complex numbers.
        """
        if length < 0:
            raise ValueError(f"got length = {length}: expected at least 0")
        check_dtype(dtype)
        return self._nbytes(length * (2 if dtype.is_complex else 1), dtype.to_real()) if length else 0

    def encode(self, x: Tensor, seed: int) -> Tensor:
        """The bytes of C(x).

        Args:
            x: vector [d] of any of `DTYPES`, d >= 0; stays as it is.
            seed: an integer of at least 0, the same on all ranks for this round and buffer; what is drawn follows it.

        Returns:
            uint8 vector of `nbytes(d, x.dtype)` bytes, in memory of its own.

        Raises:
            ValueError: x is not such a vector, or seed not such an integer.
        """
        check_vector(x)
        check_seed(seed)
        return self._encode(real(x), seed) if len(x) else new_bytes(0)

    def decode(self, payload: Tensor, out: Tensor, seed: int) -> Tensor:
        """`out <- C(x)`; returns `out`.

        Args:
            payload: uint8 vector that `encode` has made of x; stays as it is.
            out: vector of the length and dtype of x.
            seed: what `encode` was given.

        Raises:
            ValueError: `out` is not such a vector, or the payload not of its number of bytes.
        """
        check_vector(out)
        expected = self.nbytes(len(out), out.dtype)
        if payload.dtype != torch.uint8 or tuple(payload.shape) != (expected,):
            raise ValueError(
                f"got a payload of shape {tuple(payload.shape)}, {payload.dtype}: expected {expected} bytes for "
                f"{len(out)} numbers of {out.dtype}"
            )
        if len(out):
            self._decode(payload, real(out), seed)
        return out

    @abstractmethod
    def _nbytes(self, length: int, dtype: torch.dtype) -> int: ...
    @abstractmethod
    def _encode(self, x: Tensor, seed: int) -> Tensor: ...
    @abstractmethod
    def _decode(self, payload: Tensor, out: Tensor, seed: int) -> None: ...


def check_dtype(dtype: torch.dtype) -> None:
    """Refuse what is not in `DTYPES`."""
    if dtype not in DTYPES:
        raise ValueError(f"got {dtype}: expected one of {', '.join(map(str, DTYPES))}")


def check_seed(seed: int) -> None:
    """Refuse what compressors that draw cannot start from, in those too that draw nothing."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"got seed = {seed!r}: expected an integer of at least 0")


def check_vector(x: Tensor) -> None:
    """Refuse what cannot be compressed."""
    check_dtype(x.dtype)
    if x.dim() != 1 or not x.is_contiguous() or x.device.type != "cpu":
        raise ValueError(
            f"got a tensor of shape {tuple(x.shape)}, strides {x.stride()}, on {x.device}: "
            "expected a contiguous vector in main memory"
        )


def real(x: Tensor) -> Tensor:
    """A vector's memory as real numbers."""
    return torch.view_as_real(x.detach()).view(-1) if x.is_complex() else x.detach()


def new_bytes(count: int) -> Tensor:
    """A uint8 vector without values."""
    # numpy asks for huge pages: the first write to a large payload takes a third of the time.
    return torch.from_numpy(np.empty(count, np.uint8))


def empty(length: int, dtype: torch.dtype) -> Tensor:
    """A vector without values."""
    return new_bytes(length * dtype.itemsize).view(dtype)


def as_bytes(x: Tensor) -> Tensor:
    """A tensor's numbers as bytes."""
    return x.flatten().view(torch.uint8)


def numbers(payload: Tensor, dtype: torch.dtype) -> Tensor:
    """Bytes as numbers: the memory itself, or a copy where torch finds it askew."""
    straight = payload.is_contiguous() and payload.storage_offset() % dtype.itemsize == 0
    return (payload if straight else payload.clone()).view(dtype)


def finite(x: Tensor) -> bool:
    """Whether all numbers of a real vector are finite."""
    # Extremes hand on NaN, and take a twentieth of the time of `isfinite` of all.
    return not len(x) or bool(torch.stack(torch.aminmax(x)).isfinite().all())


def store(out: Tensor, values: Tensor) -> Tensor:
    """`out <- values`, rounded; what is finite and too large becomes the largest number of `out`."""
    out.copy_(values)
    if out.dtype != values.dtype and not finite(real(out)):
        found, given, largest = real(out), real(values), torch.finfo(out.dtype).max
        found.copy_(torch.where(given.isfinite(), found.clamp(-largest, largest), found))
    return out
