"""The mean of all replicas: for evaluation, and as the point from which the replicas' distance is measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from hvd_gossip.comm import allreduce, world
from hvd_gossip.torch.overlap import finish_exchanges


def averageable(model: nn.Module) -> list[Tensor]:
    """Parameters and floating-point buffers, each once; counters and masks stay what they are."""
    tensors = {id(t): t.detach() for t in (*model.parameters(), *model.buffers())}
    return [t for t in tensors.values() if t.is_floating_point() or t.is_complex()]


@contextmanager
def averaged(model: nn.Module) -> Iterator[nn.Module]:
    """Inside, the model is the mean of all replicas; afterwards each replica is what it was, bit for bit.

    `x <- (1/n) sum_i x_i` for parameters and floating-point buffers such as BatchNorm's running statistics.

    Every rank has to enter. Memory: one copy of the model. What is trained inside is lost.

    Example:
        >>> import hvd_gossip.torch as hvd
        >>> hvd.init()
        >>> model = nn.BatchNorm1d(2)
        >>> with hvd.averaged(model):
        ...     model.running_var.tolist()
        [1.0, 1.0]
    """
    here = world.current()
    finish_exchanges()
    tensors = averageable(model)
    local = [tensor.clone() for tensor in tensors]
    try:
        with torch.no_grad():
            for tensor in tensors:
                allreduce.mean_(here.comm, tensor)
        yield model
    finally:
        with torch.no_grad():
            for tensor, value in zip(tensors, local, strict=True):
                tensor.copy_(value)


@torch.no_grad()
def consensus_distance(model: nn.Module) -> float:
    r"""How far the replicas are from their mean, the same number on every rank.

    `sqrt((1/n) sum_i ||x_i - x_mean||^2)` over all parameters, summed in float64.

    Every rank has to call it. Source: arXiv:2102.04828.

    Example:
        >>> import hvd_gossip.torch as hvd
        >>> hvd.init()
        >>> hvd.consensus_distance(nn.BatchNorm1d(2))
        0.0
    """
    here = world.current()
    finish_exchanges()
    square = torch.zeros((), dtype=torch.float64)
    for parameter in model.parameters():
        wide = torch.complex128 if parameter.is_complex() else torch.float64
        value = parameter.detach().to("cpu", wide)
        difference = value - allreduce.mean_(here.comm, value.clone())
        square += difference.abs().square().sum()
    return float(allreduce.mean_(here.comm, square).sqrt())
