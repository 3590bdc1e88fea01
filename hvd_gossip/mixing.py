"""The seam of the package: a mixer replaces x by W(t) x, and every synchronous algorithm is written against it.

Over MPI a mixer holds one row and x is this rank's flat buffer; here, for the simulator, it holds all rows and x is
`[n, d]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from hvd_gossip.graphs import Schedule, Topology

Buffers = Sequence[Tensor]
"""A point in parameter space: one contiguous tensor for each dtype and device."""


@dataclass
class Traffic:
    """What one rank has sent and waited for so far: bytes and messages leaving it, seconds inside mixing."""

    bytes: int = 0
    messages: int = 0
    seconds: float = 0.0


class Settling(Protocol):
    """Parameters that may be moved: buffers with two places each, between which `turn` changes."""

    buffers: list[Tensor]

    @property
    def kinds(self) -> list[tuple[torch.dtype, int]]: ...
    def settle(self, places: Sequence[tuple[Tensor, Tensor]]) -> None: ...
    def turn(self) -> None: ...
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

    def settle(self, parameters: Settling) -> None:
        """Move parameters to where they are mixed at the least cost, before they are mixed for the first time."""


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which values of `dtype` are summed: float32 or better."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


class MatrixMixer:
    """All replicas in one process: buffers are `[n, d]` and mixing is a sparse matrix product.

    `x <- W(t) x`, with W(t) of the schedule.

    Example:
        >>> from hvd_gossip.graphs import schedule
        >>> mixer, x = MatrixMixer(schedule("complete", 2)), torch.tensor([[0.0], [1.0]])
        >>> mixer.begin(0, 0); mixer.mix([x]); x.flatten().tolist()
        [0.5, 0.5]
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.size = schedule.n
        self.traffic = Traffic()
        self._topology: Topology | None = None
        self._matrix = torch.empty(0)

    def begin(self, round: int, epoch: int) -> None:
        topology = self.schedule(round, epoch)
        if topology is not self._topology:
            self._topology, self._matrix = topology, torch_matrix(topology)

    def settle(self, parameters: Settling) -> None:
        """There is no better place."""

    def mix(self, buffers: Buffers) -> None:
        for buffer in buffers:
            dtype = accumulation_dtype(buffer.dtype)
            buffer.copy_(self._matrix.to(buffer.device, dtype) @ buffer.to(dtype))


def torch_matrix(topology: Topology) -> Tensor:
    """W as a sparse float64 torch tensor of shape [n, n]."""
    matrix = topology.matrix().tocoo()
    indices = torch.from_numpy(np.stack(matrix.coords).astype(np.int64))
    weights = torch.from_numpy(matrix.data)
    return torch.sparse_coo_tensor(indices, weights, matrix.shape, check_invariants=True, is_coalesced=True)
