"""Mixing in one process: buffers hold all replicas as `[n, d]`, and mixing is a sparse matrix product."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from hvd_gossip.graphs import Schedule, Topology
from hvd_gossip.mixing import Buffers, Compresses, Eager, Traffic, accumulation_dtype, rounded, wire_dtype


class MatrixMixer(Eager):
    """All replicas in one process: buffers are `[n, d]` and mixing is a sparse matrix product.

    `x <- W(t) x`, with W(t) of the schedule, or `x <- x + (W(t) - I) Q(x)` where values are rounded on the wire.

    Traffic is that of one rank, the mean over all: what each would send if it were one.

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
        self._kept: dict[tuple[torch.device, torch.dtype], sp.csr_array | Tensor] = {}

    def begin(self, round: int, epoch: int) -> None:
        topology = self.schedule(round, epoch)
        if topology is not self._topology:
            self._topology, self._kept = topology, {}

    def _product(self, x: Tensor) -> Tensor:
        """`W(t) x`; float32 or better."""
        assert self._topology is not None
        if (key := (x.device, x.dtype)) not in self._kept:
            self._kept[key] = weights_matrix(self._topology, *key)
        matrix = self._kept[key]
        # scipy's product takes a quarter of the time of torch's on a CPU.
        return matrix @ x if isinstance(matrix, Tensor) else torch.from_numpy(matrix @ x.numpy())

    def mix(self, buffers: Buffers) -> None:
        for buffer in buffers:
            dtype, wire = accumulation_dtype(buffer.dtype), wire_dtype(buffer.dtype, self._wire)
            if wire == buffer.dtype.to_real():
                buffer.copy_(self._product(buffer.to(dtype)))
            else:
                seen = rounded(buffer, wire).to(dtype)
                buffer.copy_(buffer.to(dtype) + (self._product(seen) - seen))

    def mean(self, buffers: Buffers) -> None:
        for buffer in buffers:
            buffer.copy_(buffer.to(accumulation_dtype(buffer.dtype)).mean(dim=0, keepdim=True).expand_as(buffer))

    def mean_of(self, value: Tensor) -> float:
        return math.fsum(value.tolist()) / self.size

    def mix_compressed(self, buffers: Buffers, compressor: Compresses, seed: int) -> tuple[list[Tensor], list[Tensor]]:
        own = []
        for index, buffer in enumerate(buffers):
            sent = torch.empty_like(buffer)
            for x, out in zip(buffer, sent, strict=True):
                compressor.decode(compressor.encode(x, seed + index), out, seed + index)
            own.append(sent)
        return own, [self._product(sent.to(accumulation_dtype(sent.dtype))) for sent in own]

    def self_weight(self) -> Tensor:
        assert self._topology is not None
        return torch.from_numpy(self._topology.matrix().diagonal()[:, None].copy())


def weights_matrix(topology: Topology, device: torch.device, dtype: torch.dtype) -> sp.csr_array | Tensor:
    """W by rows: scipy's for a CPU, torch's for another device."""
    if device.type != "cpu":
        return torch_matrix(topology).to(device, dtype)
    return topology.matrix().astype(torch.empty(0, dtype=dtype.to_real()).numpy().dtype)


def torch_matrix(topology: Topology) -> Tensor:
    """W as a sparse float64 torch tensor of shape [n, n]."""
    matrix = topology.matrix().tocoo()
    indices = torch.from_numpy(np.stack(matrix.coords).astype(np.int64))
    weights = torch.from_numpy(matrix.data)
    return torch.sparse_coo_tensor(indices, weights, matrix.shape, check_invariants=True, is_coalesced=True)
