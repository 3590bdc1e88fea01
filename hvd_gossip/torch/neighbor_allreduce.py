"""The weighted average of a tensor with those of the neighbours, under BlueFog's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
from torch import Tensor

from hvd_gossip.comm.dist_graph import check_edges
from hvd_gossip.comm.world import World, ranks_text
from hvd_gossip.graphs import Row, Topology
from hvd_gossip.torch.operations import averaged_copy, check_tensor, operations, topology_of


def neighbor_allreduce(
    tensor: Tensor,
    *,
    graph: Any = None,
    self_weight: float | None = None,
    src_weights: Mapping[int, float] | None = None,
    dst_weights: Mapping[int, float] | Sequence[int] | None = None,
    enable_topo_check: bool = True,
    name: str | None = None,
) -> Tensor:
    """The weighted average of a tensor with those of the neighbours; the tensor itself stays as it is.

    `y_i = w_i x_i + sum_j r_ij s_ji x_j`

    Args:
        tensor: any shape, floating-point or complex, the same on every rank; sums are taken in float32 or better.
        graph: a name, a `Topology`, a graph of networkx (default: that of `set_topology`).
        self_weight, src_weights: w_i, and r_ij by source; both or none (default: the graph's weights).
        dst_weights: s_ij by destination, or a list of destinations, whose s is 1. With it sources and destinations
            are those named here, whatever the graph.
        enable_topo_check: whether edges named here are compared between ranks first: one small allreduce.
        name: accepted as BlueFog does; operations are matched by their order.

    Raises:
        ValueError: arguments that contradict each other or the graph, or an edge that only one of its ends names.

    Example:
        >>> import torch, hvd_gossip.torch as hvd
        >>> hvd.init()
        >>> hvd.neighbor_allreduce(torch.ones(2), graph="ring").tolist()
        [1.0, 1.0]
    """
    return _allreduce(tensor, False, False, graph, self_weight, src_weights, dst_weights, enable_topo_check)


def neighbor_allreduce_(tensor: Tensor, **options: Any) -> Tensor:
    """`neighbor_allreduce` in place; returns the tensor."""
    return _allreduce(tensor, True, False, **_known(options))


def neighbor_allreduce_nonblocking(tensor: Tensor, **options: Any) -> Future:
    """`neighbor_allreduce` that goes on while this rank computes; returns a handle for `poll` and `synchronize`."""
    return _allreduce(tensor, False, True, **_known(options))


def neighbor_allreduce_nonblocking_(tensor: Tensor, **options: Any) -> Future:
    """`neighbor_allreduce_` that goes on while this rank computes; the tensor must be left alone meanwhile."""
    return _allreduce(tensor, True, True, **_known(options))


def _known(options: dict[str, Any]) -> dict[str, Any]:
    known = ("graph", "self_weight", "src_weights", "dst_weights", "enable_topo_check", "name")
    for option in options:
        if option not in known:
            raise ValueError(f"unknown option {option!r}: expected one of {', '.join(known)}")
    return {key: value for key, value in options.items() if key != "name"}


def _allreduce(
    tensor: Tensor,
    in_place: bool,
    nonblocking: bool,
    graph: Any = None,
    self_weight: float | None = None,
    src_weights: Mapping[int, float] | None = None,
    dst_weights: Mapping[int, float] | Sequence[int] | None = None,
    enable_topo_check: bool = True,
) -> Any:
    ours = operations()
    here = ours.world
    scales = dict.fromkeys(dst_weights, 1.0) if isinstance(dst_weights, Sequence) else dict(dst_weights or {})

    check_tensor(tensor)
    topology = ours.topology if graph is None else topology_of(graph, here.size)
    row = row_of(here, topology, self_weight, src_weights, dst_weights is not None, scales)
    if dst_weights is not None and enable_topo_check:
        check_edges(here.comm, row, "the edges of this call")

    def average(vector: Tensor) -> None:
        if dst_weights is not None:
            ours.dynamic(row, vector, scales, lambda: f"one of ranks {ranks_text(row.sources.tolist())}")
        else:
            ours.average(ours.graphs[topology], row, vector, whom=lambda: f"a neighbour in graph {topology.name!r}")

    return ours.run(lambda: averaged_copy(tensor, in_place, average), nonblocking)


def row_of(
    here: World,
    topology: Topology,
    self_weight: float | None,
    src_weights: Mapping[int, float] | None,
    dynamic: bool,
    scales: Mapping[int, float],
) -> Row:
    """This rank's neighbours and weights: the graph's, or those that the call names.

    Raises:
        ValueError: only one of self_weight and src_weights, or a rank that is no neighbour.
    """
    if (self_weight is None) != (src_weights is None):
        raise ValueError("got one of self_weight and src_weights: give both, or none for the graph's weights")
    if dynamic and src_weights is None:
        raise ValueError("got dst_weights alone: with edges of its own a call needs self_weight and src_weights too")
    row = topology.row(here.rank)
    if src_weights is None or self_weight is None:
        return row
    known = set(range(here.size)) - {here.rank} if dynamic else set(row.sources.tolist())
    if odd := sorted(set(src_weights) - known):
        raise ValueError(f"src_weights names rank {odd[0]}: expected ranks of {sorted(known)}")
    if odd := sorted(set(scales) - set(range(here.size)) | set(scales) & {here.rank}):
        raise ValueError(f"dst_weights names rank {odd[0]}: expected other ranks of 0 to {here.size - 1}")
    sources = np.array(sorted(src_weights) if dynamic else row.sources.tolist(), dtype=np.int64)
    weights = np.array([float(src_weights.get(source, 0.0)) for source in sources.tolist()])
    destinations = np.array(sorted(scales), dtype=np.int64) if dynamic else row.destinations
    return Row(float(self_weight), sources, weights, destinations)
