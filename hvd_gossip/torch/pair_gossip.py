"""The weighted average of a tensor between two ranks, under BlueFog's name."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import numpy as np
from torch import Tensor

from hvd_gossip.graphs import Row
from hvd_gossip.torch.operations import averaged_copy, check_tensor, operations


def pair_gossip(
    tensor: Tensor,
    target_rank: int,
    self_weight: float = 0.5,
    pair_weight: float = 0.5,
    name: str | None = None,
) -> Tensor:
    """The weighted average with one other rank, which calls it too; no one else has to.

    `y_i = w x_i + v x_j`

    Args:
        tensor: any shape, floating-point or complex, the same on both ranks.
        target_rank: the other rank.
        self_weight, pair_weight: w and v.
        name: accepted as BlueFog does.

    Raises:
        ValueError: no tensor of numbers, or not another rank.
    """
    return _pair(tensor, target_rank, self_weight, pair_weight, False, False)


def pair_gossip_(tensor: Tensor, target_rank: int, self_weight: float = 0.5, pair_weight: float = 0.5) -> Tensor:
    """`pair_gossip` in place; returns the tensor."""
    return _pair(tensor, target_rank, self_weight, pair_weight, True, False)


def pair_gossip_nonblocking(
    tensor: Tensor, target_rank: int, self_weight: float = 0.5, pair_weight: float = 0.5
) -> Future:
    """`pair_gossip` that goes on while this rank computes; returns a handle."""
    return _pair(tensor, target_rank, self_weight, pair_weight, False, True)


def _pair(tensor: Tensor, other: int, own: float, weight: float, in_place: bool, nonblocking: bool) -> Any:
    ours = operations()
    check_tensor(tensor)
    if other == ours.world.rank or not 0 <= other < ours.world.size:
        raise ValueError(f"got target_rank = {other} on rank {ours.world.rank} of {ours.world.size}: expected another")
    row = Row(own, np.array([other]), np.array([weight]), np.array([other]))

    def average(vector: Tensor) -> None:
        # Pairs meet on a communicator of their own, in the order of their calls.
        ours.pair(row, vector, {}, lambda: f"rank {other} in pair_gossip", tag=1)

    return ours.run(lambda: averaged_copy(tensor, in_place, average), nonblocking)
