"""Compressors that keep some entries as they are, and make 0 of the others."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from hvd_gossip.comm.compress.base import CHUNK, Compressor, as_bytes, finite, numbers, store
from hvd_gossip.graphs.seeds import generator
from hvd_gossip.mixing import accumulation_dtype

INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class Sparse(Compressor):
    """A fraction of the entries."""

    def __init__(self, fraction: float) -> None:
        if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 < fraction <= 1:
            raise ValueError(f"got fraction = {fraction!r}: expected a number above 0 and at most 1")
        self.fraction = float(fraction)

    def count(self, length: int) -> int:
        """`k = max(1, ceil(fraction d))` of d numbers, the fraction taken as it is written in decimals."""
        # As a binary number 0.07 is a little more, and of 100 numbers 8 would be kept.
        return max(1, math.ceil(Fraction(repr(self.fraction)) * length))


class TopK(Sparse):
    """The k entries of largest modulus, and their places as int32 (int64 for 2^31 numbers or more).

    `delta = k/d`, `k = max(1, ceil(fraction d))`.

    Of equal moduli those at smaller places are kept. NaN counts as larger than infinity, and both are kept first. Of a
    complex vector, real and imaginary parts are entries of their own.

    Args:
        fraction: k/d, without unit, in (0, 1].

    Raises:
        ValueError: not a fraction.

    Example:
        >>> c, x = TopK(0.5), torch.tensor([3.0, -1.0, -4.0, 2.0])
        >>> c.decode(c.encode(x, 0), torch.empty(4), 0).tolist()
        [3.0, 0.0, -4.0, 0.0]

    Source: arXiv:1809.07599.
    """

    def __init__(self, fraction: float = 0.01) -> None:
        super().__init__(fraction)

    def _nbytes(self, length: int, dtype: torch.dtype) -> int:
        return self.count(length) * (dtype.itemsize + place_dtype(length).itemsize)

    def _encode(self, x: Tensor, seed: int) -> Tensor:
        places = largest(x, self.count(len(x)))
        return torch.cat([as_bytes(places.to(place_dtype(len(x)))), as_bytes(x[places])])

    def _decode(self, payload: Tensor, out: Tensor, seed: int) -> None:
        places = place_dtype(len(out))
        width = self.count(len(out)) * places.itemsize
        out.zero_()[numbers(payload[:width], places).long()] = numbers(payload[width:], out.dtype)


class RandomK(Sparse):
    """k entries drawn without replacement; their places follow from the seed, and only values travel.

    `E ||x - C(x)||^2 = (1 - k/d) ||x||^2`, thus delta = k/d on average, with `k = max(1, ceil(fraction d))`. With
    `unbiased`, values are multiplied by d/k: `E C(x) = x` and `E ||x - C(x)||^2 = (d/k - 1) ||x||^2`, no contraction.

    With a NaN or an infinity anywhere in x, all k values are NaN.

    Args:
        fraction: k/d, without unit, in (0, 1].
        unbiased: whether values are multiplied by d/k.

    Raises:
        ValueError: not a fraction, or not a bool.

    Example:
        >>> c, x = RandomK(0.5), torch.ones(8)
        >>> int(c.decode(c.encode(x, 1), torch.empty(8), 1).sum())
        4

    Source: arXiv:1809.07599.
    """

    def __init__(self, fraction: float = 0.01, unbiased: bool = False) -> None:
        super().__init__(fraction)
        if not isinstance(unbiased, bool):
            raise ValueError(f"got unbiased = {unbiased!r}: expected true or false")
        self.unbiased, self.contraction = unbiased, not unbiased

    def _nbytes(self, length: int, dtype: torch.dtype) -> int:
        return self.count(length) * dtype.itemsize

    def _encode(self, x: Tensor, seed: int) -> Tensor:
        values = x[drawn(len(x), self.count(len(x)), seed)]
        return as_bytes(values if finite(x) else values.fill_(math.nan))

    def _decode(self, payload: Tensor, out: Tensor, seed: int) -> None:
        k, values = self.count(len(out)), numbers(payload, out.dtype)
        if self.unbiased:
            scaled = values.to(accumulation_dtype(out.dtype)) * (len(out) / k)
            values = store(torch.empty_like(values), scaled)
        out.zero_()[drawn(len(out), k, seed)] = values


def place_dtype(length: int) -> torch.dtype:
    """The integer in which a place in a vector travels."""
    return torch.int32 if length < 2**31 else torch.int64


def largest(x: Tensor, k: int) -> Tensor:
    """Places of the k numbers of largest modulus, int64 [k], ascending; of equal ones those at smaller places."""
    # Without their sign bit, floating-point numbers are in the order of their bits, infinity and NaN last.
    bits = x.view(INTEGERS[x.dtype.itemsize]).numpy()
    places, moduli = at_least(bits, likely_bound(bits, k))
    if len(places) < k:
        places, moduli = at_least(bits, 0)
    least = np.partition(moduli, len(moduli) - k)[len(moduli) - k]
    kept = moduli > least
    kept[np.flatnonzero(moduli == least)[: k - np.count_nonzero(kept)]] = True
    return torch.from_numpy(places[kept])


def likely_bound(bits: np.ndarray, k: int) -> int:
    """A modulus that a few more than k numbers reach, as bits, judged by a sample; 0 where a sample does not help."""
    sample = bits[:: (len(bits) >> 16) | 1] & np.iinfo(bits.dtype).max
    expected = k * len(sample) / len(bits)
    rank = math.ceil(expected + 5 * math.sqrt(expected) + 5)
    return int(np.partition(sample, -rank)[-rank]) if rank < len(sample) else 0


def at_least(bits: np.ndarray, bound: int) -> tuple[np.ndarray, np.ndarray]:
    """Places and moduli, as bits, of the numbers whose modulus reaches a bound."""
    places, moduli, mask = [], [], np.iinfo(bits.dtype).max
    for begin in range(0, len(bits), CHUNK):
        part = bits[begin : begin + CHUNK] & mask
        found = np.flatnonzero(part >= bound)
        places.append(found + begin)
        moduli.append(part[found])
    return np.concatenate(places), np.concatenate(moduli)


def drawn(length: int, k: int, seed: int) -> Tensor:
    """Draw k of `length` places, ascending, int64 [k]; every choice of k is as likely.

    Places are marked until enough are, as many at a time as are missing. No place is treated unlike another, thus all
    sets of k are equally likely. Takes time O(length).
    """
    random, marked = generator("random_k", seed), np.zeros(length, bool)
    missing = fewer = min(k, length - k)
    while missing:
        marked[random.randint(0, length, missing, dtype=np.int64)] = True
        missing = fewer - int(np.count_nonzero(marked))
    return torch.from_numpy(np.flatnonzero(marked if k == fewer else ~marked))
