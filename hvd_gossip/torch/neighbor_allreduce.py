"""The weighted average of a tensor with those of the neighbours, under BlueFog's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from hvd_gossip.comm.requests import Asked
from hvd_gossip.comm.world import World
from hvd_gossip.graphs import Row, Topology
from hvd_gossip.torch.operands import averaged_copy, check_tensor, described, scales_by_rank, weight, weights_by_rank
from hvd_gossip.torch.operations import Handle, Prepared, operations, seal_of, topology_of


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
        enable_topo_check: whether ranks compare first what they ask for: one small allreduce.
        name: accepted as BlueFog does; operations are matched by their order.

    Raises:
        ValueError: on every rank, when arguments contradict each other or the graph, an edge is named by one of its
            ends only, or ranks ask for different dtypes, shapes or graphs; of a nonblocking form by `synchronize`.

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


def neighbor_allreduce_nonblocking(tensor: Tensor, **options: Any) -> Handle:
    """`neighbor_allreduce` that goes on while this rank computes; returns a handle for `poll` and `synchronize`."""
    return _allreduce(tensor, False, True, **_known(options))


def neighbor_allreduce_nonblocking_(tensor: Tensor, **options: Any) -> Handle:
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
    dynamic = dst_weights is not None

    def prepare() -> Prepared:
        check_tensor(tensor, in_place)
        scales = scales_by_rank("dst_weights", dst_weights) if dynamic else {}
        topology = ours.topology if graph is None else topology_of(graph, here.size)
        row = row_of(here, topology, self_weight, src_weights, dynamic, scales)

        def average(vector: Tensor) -> None:
            if dynamic:
                whom = ours.whom(row.sources.tolist(), "in neighbor_allreduce")
                ours.dynamic(row, vector, scales, whom)
            else:
                whom = ours.whom(row.sources.tolist(), f"in neighbor_allreduce on graph {topology.name!r}")
                ours.average(ours.graphs[topology], row, vector, whom=whom)

        where = "edges of its own" if dynamic else f"graph {topology.name!r}"
        text = f"neighbor_allreduce of {described(tensor)} on {where}"
        asked = Asked(text, row=row) if dynamic else Asked(text, seal_of(topology))
        return Prepared(asked, lambda: averaged_copy(tensor, in_place, average))

    return ours.together(prepare, nonblocking, enable_topo_check)


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
    own, heard = weight("self_weight", self_weight), weights_by_rank("src_weights", src_weights)
    known = set(range(here.size)) - {here.rank} if dynamic else set(row.sources.tolist())
    if odd := sorted(set(heard) - known):
        raise ValueError(f"src_weights names rank {odd[0]}: expected ranks of {sorted(known)}")
    if odd := sorted(set(scales) - (set(range(here.size)) - {here.rank})):
        raise ValueError(f"dst_weights names rank {odd[0]}: expected other ranks of 0 to {here.size - 1}")
    sources = np.array(sorted(heard) if dynamic else row.sources.tolist(), dtype=np.int64)
    weights = np.array([heard.get(source, 0.0) for source in sources.tolist()])
    destinations = np.array(sorted(scales), dtype=np.int64) if dynamic else row.destinations
    return Row(own, sources, weights, destinations)
