"""The device of a rank, and how many threads it may use."""

from __future__ import annotations

import os

import torch


def choose(device: str, local_rank: int, local_size: int) -> torch.device:
    """The device on which this rank's model lives.

    Args:
        device: "cpu", "cuda" or "auto".
        local_rank, local_size: this rank among those of its node.

    Raises:
        ValueError: CUDA is asked for and missing, or ranks outnumber devices.
    """
    if device == "cpu" or (device == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ValueError("got device cuda, but torch sees no CUDA device: use device cpu, or a torch built for CUDA")
    return torch.device("cuda", index(torch.cuda.device_count(), local_rank, local_size))


def index(visible: int, local_rank: int, local_size: int) -> int:
    """Which of the visible devices: the only one where the launcher shows each rank its own, else the local rank's.

    Raises:
        ValueError: several devices are visible, but fewer than there are ranks on this node.
    """
    if visible == 1:
        return 0
    if local_rank >= visible:
        raise ValueError(
            f"{local_size} ranks on this node, but {visible} CUDA devices are visible: start at most one rank for "
            "each device, or let the launcher show each rank its own"
        )
    return local_rank


def share_cores(local_size: int) -> None:
    """Divide the cores among the ranks of a node, unless OMP_NUM_THREADS has settled it."""
    if local_size > 1 and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // local_size))
