"""The tensors of all in-neighbours on each rank, under BlueFog's name."""

from __future__ import annotations

import math
from concurrent.futures import Future
from typing import Any

import numpy as np
from torch import Tensor

from hvd_gossip.comm import mpi as MPI, watchdog
from hvd_gossip.comm.raw import raw
from hvd_gossip.torch.operations import operations, topology_of


def neighbor_allgather(tensor: Tensor, *, graph: Any = None, name: str | None = None) -> Tensor:
    """The tensors of the in-neighbours, in the order of their ranks, one after the other along the first dimension.

    Args:
        tensor: any dtype; other dimensions than the first are the same on every rank.
        graph: a name, a `Topology`, a graph of networkx (default: that of `set_topology`).
        name: accepted as BlueFog does.

    Example:
        >>> import torch, hvd_gossip.torch as hvd
        >>> hvd.init()
        >>> len(hvd.neighbor_allgather(torch.ones(2), graph="complete")) == 2 * (hvd.size() - 1)
        True
    """
    return _allgather(tensor, graph, False)


def neighbor_allgather_nonblocking(tensor: Tensor, *, graph: Any = None, name: str | None = None) -> Future:
    """`neighbor_allgather` that goes on while this rank computes; returns a handle."""
    return _allgather(tensor, graph, True)


def _allgather(tensor: Tensor, graph: Any, nonblocking: bool) -> Any:
    ours = operations()
    if not isinstance(tensor, Tensor) or tensor.dim() == 0:
        raise ValueError("got no tensor with a first dimension: use tensor.reshape(1)")
    topology = ours.topology if graph is None else topology_of(graph, ours.world.size)
    comm, sent = ours.graphs[topology], tensor.detach().to("cpu").contiguous()

    def run() -> Tensor:
        degree = len(topology.row(ours.world.rank).sources)
        lengths = np.zeros(degree, np.int64)
        comm.Neighbor_allgather(np.array([len(sent)]), [lengths, 1, MPI.INT64_T])
        received = sent.new_empty((int(lengths.sum()), *sent.shape[1:]))
        # Counted in rows, so that counts do not wrap where bytes would.
        kind = MPI.BYTE.Create_contiguous(math.prod(sent.shape[1:]) * sent.element_size()).Commit()
        spans = (lengths.tolist(), (np.cumsum(lengths) - lengths).tolist())
        request = comm.Ineighbor_allgatherv([raw(sent), len(sent), kind], [raw(received), spans, kind])
        watchdog.wait(request.Test, lambda: f"a neighbour in graph {topology.name!r}")
        kind.Free()
        return received.to(tensor.device)

    return ours.run(run, nonblocking)
