"""The seam of the package: a mixer replaces x by W(t) x, and every synchronous algorithm is written against it.

Over MPI a mixer holds one row and x is this rank's flat buffer; here, for the simulator, it holds all rows and x is
`[n, d]`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from hvd_gossip.graphs import Schedule, Topology

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


class Settling(Protocol):
    """Parameters that may be moved: buffers with two places each, between which `turn` changes."""

    buffers: list[Tensor]

    @property
    def kinds(self) -> list[tuple[torch.dtype, int]]: ...
    def settle(self, places: Sequence[tuple[Tensor, Tensor]]) -> None: ...
    def turn(self) -> None: ...
    def current(self) -> Sequence[Tensor]: ...
    def other(self) -> Sequence[Tensor]: ...


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


class MatrixMixer:
    """All replicas in one process: buffers are `[n, d]` and mixing is a sparse matrix product.

    `x <- W(t) x`, with W(t) of the schedule, or `x <- x + (W(t) - I) Q(x)` where values are rounded on the wire.

    Args:
        schedule: round -> graph.
        wire: to what values are rounded that neighbours see: torch.bfloat16, torch.float16, or None for not at all.

    Example:
        >>> from hvd_gossip.graphs import schedule
        >>> mixer, x = MatrixMixer(schedule("complete", 2)), torch.tensor([[0.0], [1.0]])
        >>> mixer.begin(0, 0); mixer.mix([x]); x.flatten().tolist()
        [0.5, 0.5]
    """

    def __init__(self, schedule: Schedule, wire: torch.dtype | None = None) -> None:
        self.schedule = schedule
        self.size = schedule.n
        self._wire = wire
        self.traffic = Traffic()
        self._topology: Topology | None = None
        self._matrix = torch.empty(0)

    def begin(self, round: int, epoch: int) -> None:
        topology = self.schedule(round, epoch)
        if topology is not self._topology:
            self._topology, self._matrix = topology, torch_matrix(topology)

    def settle(self, parameters: Settling, overlap: bool = False) -> None:
        """There is no better place."""

    def start(self, buffers: Buffers) -> None:
        """Nothing goes on ahead of `mix`."""

    def arrived(self, buffer: int, length: int) -> bool:
        """Nothing goes on ahead of `mix`."""
        return False

    def forget(self) -> None:
        """Nothing has been started."""

    def mix(self, buffers: Buffers) -> None:
        for buffer in buffers:
            dtype, wire = accumulation_dtype(buffer.dtype), wire_dtype(buffer.dtype, self._wire)
            matrix = self._matrix.to(buffer.device, dtype)
            if wire == buffer.dtype.to_real():
                buffer.copy_(matrix @ buffer.to(dtype))
            else:
                seen = rounded(buffer, wire).to(dtype)
                buffer.copy_(buffer.to(dtype) + (matrix @ seen - seen))


def torch_matrix(topology: Topology) -> Tensor:
    """W as a sparse float64 torch tensor of shape [n, n]."""
    matrix = topology.matrix().tocoo()
    indices = torch.from_numpy(np.stack(matrix.coords).astype(np.int64))
    weights = torch.from_numpy(matrix.data)
    return torch.sparse_coo_tensor(indices, weights, matrix.shape, check_invariants=True, is_coalesced=True)
