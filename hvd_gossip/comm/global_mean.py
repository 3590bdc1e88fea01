"""Means over all ranks, whatever the graph: what a mixer does besides mixing."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from hvd_gossip.comm import allreduce
from hvd_gossip.comm.world import World
from hvd_gossip.mixing import Buffers, Traffic


def mean(
    world: World, buffers: Buffers, traffic: Traffic, carrier: Callable[[Tensor, int], None] | None = None
) -> None:
    """`x <- 11^T/n x` in place, by MPI's own allreduce or another carrier, counted as a ring allreduce."""
    if world.size == 1:
        return
    with traffic.timed():
        for index, buffer in enumerate(buffers):
            if carrier is None:
                allreduce.mean_(world.comm, buffer)
            else:
                carrier(buffer, index)
            traffic.count_mean(buffer, world.size)


def mean_of(world: World, value: Tensor) -> float:
    """The mean over all ranks of a number that each has: summed in one order, so that no rank gets another one."""
    return math.fsum(world.comm.allgather(float(value))) / world.size
