"""The weighted average of a tensor between two ranks, under BlueFog's name."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from hvd_gossip.comm.agreement import attempt
from hvd_gossip.comm.requests import compare_pair
from hvd_gossip.comm.watchdog import Whom
from hvd_gossip.graphs import Row
from hvd_gossip.torch import operands
from hvd_gossip.torch.operands import averaged_copy, check_tensor, described, rank_number
from hvd_gossip.torch.operations import Handle, operations


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
        ValueError: not another rank; on both ranks, no tensor of numbers, or another dtype or shape there.
    """
    return _pair(tensor, target_rank, self_weight, pair_weight, False, False)


def pair_gossip_(tensor: Tensor, target_rank: int, self_weight: float = 0.5, pair_weight: float = 0.5) -> Tensor:
    """`pair_gossip` in place; returns the tensor."""
    return _pair(tensor, target_rank, self_weight, pair_weight, True, False)


def pair_gossip_nonblocking(
    tensor: Tensor, target_rank: int, self_weight: float = 0.5, pair_weight: float = 0.5
) -> Handle:
    """`pair_gossip` that goes on while this rank computes; returns a handle."""
    return _pair(tensor, target_rank, self_weight, pair_weight, False, True)


def _pair(tensor: Tensor, other: int, own: float, weight: float, in_place: bool, nonblocking: bool) -> Any:
    ours = operations()
    here = ours.world
    peer = rank_number("target_rank", other)
    if peer == here.rank or not 0 <= peer < here.size:
        raise ValueError(f"got target_rank = {peer} on rank {here.rank} of {here.size}: expected another")
    whom = Whom(lambda *_: f"rank {peer} in pair_gossip")

    def check() -> Row:
        check_tensor(tensor, in_place)
        weights = operands.weight("self_weight", own), operands.weight("pair_weight", weight)
        return Row(weights[0], np.array([peer]), np.array([weights[1]]), np.array([peer]))

    row, error, _ = attempt(check)
    text = f"pair_gossip of {described(tensor)}" if error is None else ""

    def run() -> Tensor:
        # Pairs meet on a communicator of their own, in the order of their calls.
        compare_pair(ours.pair_comm, peer, text, error, whom)
        return averaged_copy(tensor, in_place, lambda vector: ours.pair(row, vector, whom=whom, tag=1))

    return ours.run(run, nonblocking)
