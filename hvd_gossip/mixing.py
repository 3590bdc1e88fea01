"""The seam of the package: a mixer replaces x by W(t) x, and every synchronous algorithm is written against it.

Over MPI a mixer holds one row and x is this rank's flat buffer; in the simulator it holds all rows and x is `[n, d]`
(`hvd_gossip.matrix_mixer`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

WIRES = {"none": None, "bf16": torch.bfloat16, "fp16": torch.float16}
"""What numbers may be rounded to while they travel."""
Buffers = Sequence[Tensor]
"""A point in parameter space: one contiguous tensor for each dtype and device."""


@dataclass
class Traffic:
    """What one rank has sent and waited for so far.

    Attributes:
        bytes: what its neighbours have got of it, by messages or by reading; messages: how many have left it.
        neighbors: how many neighbours have got something, counted anew in every round.
        seconds: inside mixing; waited: of them, or behind computation, for other ranks.
    """

    bytes: int = 0
    messages: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    neighbors: int = 0

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the seconds spent inside."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - begin

    def count_mean(self, buffer: Tensor, size: int) -> None:
        """Add a ring allreduce of n ranks, the least there is: `2 (n - 1)/n` of the buffer, `2 (n - 1)` messages."""
        self.bytes += 2 * (size - 1) * buffer.nbytes // size
        self.messages += 2 * (size - 1)


class Settling(Protocol):
    """Parameters that may be moved: buffers with two places each, between which `turn` changes."""

    buffers: list[Tensor]

    @property
    def kinds(self) -> list[tuple[torch.dtype, int]]: ...
    def settle(self, places: Sequence[tuple[Tensor, Tensor]]) -> None: ...
    def turn(self) -> None: ...
    def current(self) -> Sequence[Tensor]: ...
    def other(self) -> Sequence[Tensor]: ...


class Compresses(Protocol):
    """A compressor C of vectors: `hvd_gossip.comm.compress`."""

    def nbytes(self, length: int, dtype: torch.dtype) -> int: ...
    def encode(self, x: Tensor, seed: int) -> Tensor: ...
    def decode(self, payload: Tensor, out: Tensor, seed: int) -> Tensor: ...


class Mixer(Protocol):
    """Averaging with the neighbours of the current round.

    Attributes:
        size: the number of replicas.
        traffic: what this rank has sent so far.
    """

    size: int
    traffic: Traffic

    def begin(self, round: int, epoch: int) -> None:
        """Make W(t) the mixing matrix of this round; schedules keep no clock of their own."""

    def mix(self, buffers: Buffers) -> None:
        """`x <- W(t) x` in place, for each buffer; sums in float32 or better, rounded once."""

    def mean(self, buffers: Buffers) -> None:
        """`x <- 11^T/n x` in place, whatever the graph; sums in float32 or better, rounded once."""

    def mean_of(self, value: Tensor) -> float:
        """The mean over all replicas of a number that each has: the same number everywhere, to the last bit."""

    def mix_compressed(self, buffers: Buffers, compressor: Compresses, seed: int) -> tuple[list[Tensor], list[Tensor]]:
        """C(x) and W(t) C(x), where C(x) alone travels; `seed` is the same on all ranks, another one in each round."""

    def self_weight(self) -> float | Tensor:
        """`W[i, i](t)`: one number, or in the simulator a column of them."""

    def start(self, buffers: Buffers) -> None:
        """Let `mix` of these buffers go on from now: until it is called they may be read, but not be changed."""

    def arrived(self, buffer: int, length: int) -> bool:
        """Wait until what `start` goes on with has so many values of this buffer ready; False if nothing goes on.

        Until `mix` they lie where the buffer will be then.
        """

    def forget(self) -> None:
        """Give up what `start` has begun, on every rank alike."""

    def settle(self, parameters: Settling, overlap: bool = False) -> None:
        """Move parameters to where they are mixed at the least cost; `start` goes ahead only with `overlap`."""


class Eager:
    """What mixers have in common that do nothing ahead of `mix`, and know no better place for parameters."""

    def settle(self, parameters: Settling, overlap: bool = False) -> None:
        """There is no better place."""

    def start(self, buffers: Buffers) -> None:
        """Nothing goes on ahead of `mix`."""

    def arrived(self, buffer: int, length: int) -> bool:
        """Nothing goes on ahead of `mix`."""
        return False

    def forget(self) -> None:
        """Nothing has been started."""


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which values of `dtype` are summed: float32 or better."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def wire_dtype(dtype: torch.dtype, wire: torch.dtype | None) -> torch.dtype:
    """The dtype in which values of `dtype` travel: the wire format, where that is shorter."""
    real = dtype.to_real()
    return wire if wire is not None and wire.itemsize < real.itemsize else real


def rounded(values: Tensor, wire: torch.dtype) -> Tensor:
    """Values as neighbours see them; what is too large for float16, infinity apart, becomes its largest number."""
    if wire == values.dtype:
        return values
    found = values.to(wire)
    if wire == torch.float16 and bool((too_large := found.isinf() & values.isfinite()).any()):
        found[too_large] = values[too_large].sign().to(wire) * torch.finfo(wire).max
    return found
