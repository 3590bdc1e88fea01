"""The tensors of all in-neighbours on each rank, under BlueFog's name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from hvd_gossip.comm import mpi as MPI, watchdog
from hvd_gossip.comm.raw import raw
from hvd_gossip.comm.requests import Asked
from hvd_gossip.graphs import Topology
from hvd_gossip.torch.operands import check_dense, values_of
from hvd_gossip.torch.operations import Handle, Operations, Prepared, operations, seal_of, topology_of


def neighbor_allgather(tensor: Tensor, *, graph: Any = None, name: str | None = None) -> Tensor:
    """The tensors of the in-neighbours, in the order of their ranks, one after the other along the first dimension.

    Args:
        tensor: any dtype; other dimensions than the first are the same on every rank.
        graph: a name, a `Topology`, a graph of networkx (default: that of `set_topology`).
        name: accepted as BlueFog does.

    Raises:
        ValueError: on every rank, when one has no dense tensor with a first dimension, or another dtype, shape of rows
            or graph than the others.

    Example:
        >>> import torch, hvd_gossip.torch as hvd
        >>> hvd.init()
        >>> len(hvd.neighbor_allgather(torch.ones(2), graph="complete")) == 2 * (hvd.size() - 1)
        True
    """
    return _allgather(tensor, graph, False)


def neighbor_allgather_nonblocking(tensor: Tensor, *, graph: Any = None, name: str | None = None) -> Handle:
    """`neighbor_allgather` that goes on while this rank computes; returns a handle."""
    return _allgather(tensor, graph, True)


def _allgather(tensor: Tensor, graph: Any, nonblocking: bool) -> Any:
    ours = operations()
    here = ours.world

    def prepare() -> Prepared:
        check_dense(tensor)
        if tensor.dim() == 0:
            raise ValueError("got a tensor without a first dimension: use tensor.reshape(1)")
        topology = ours.topology if graph is None else topology_of(graph, here.size)
        rows = str(tensor.dtype).removeprefix("torch.") + f", rows of shape {tuple(tensor.shape[1:])}"
        asked = Asked(f"neighbor_allgather of {rows}, on graph {topology.name!r}", seal_of(topology))
        # What is sent are the values at the time of the call.
        sent = values_of(tensor).to("cpu", copy=nonblocking)
        return Prepared(asked, lambda: gathered(ours, topology, sent).to(tensor.device))

    return ours.together(prepare, nonblocking)


def gathered(ours: Operations, topology: Topology, sent: Tensor) -> Tensor:
    """The rows of all in-neighbours, one after the other."""
    comm, sources = ours.graphs[topology], topology.row(ours.world.rank).sources.tolist()
    whom = ours.whom(sources, f"in neighbor_allgather on graph {topology.name!r}")
    lengths = np.zeros(len(sources), np.int64)
    request = comm.Ineighbor_allgather(np.array([len(sent)]), [lengths, 1, MPI.INT64_T])
    watchdog.wait(request.Test, whom)
    received = sent.new_empty((int(lengths.sum()), *sent.shape[1:]))
    # Counted in rows, so that counts do not wrap where bytes would.
    kind = MPI.BYTE.Create_contiguous(math.prod(sent.shape[1:]) * sent.element_size()).Commit()
    spans = (lengths.tolist(), (np.cumsum(lengths) - lengths).tolist())
    request = comm.Ineighbor_allgatherv([raw(sent), len(sent), kind], [raw(received), spans, kind])
    watchdog.wait(request.Test, whom)
    kind.Free()
    return received
