"""Horovod's collective operations under Horovod's names, carried by MPI."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from hvd_gossip.comm import allreduce as mpi_allreduce, world
from hvd_gossip.comm.broadcast import broadcast_
from hvd_gossip.torch.overlap import finish_exchanges


class ReduceOp:
    """How values of all ranks become one."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


Average = ReduceOp("Average")
Sum = ReduceOp("Sum")
Adasum = ReduceOp("Adasum")


class Compression:
    """What numbers are rounded to while they travel: nothing, or 16 bits."""

    none = None
    fp16 = torch.float16
    bf16 = torch.bfloat16


def reduction(op: ReduceOp | None, average: bool | None = None) -> ReduceOp:
    """The operation that Horovod's `op` and its older argument `average` mean.

    Raises:
        ValueError: both are given, or an operation other than Average and Sum.
    """
    if op is not None and average is not None:
        raise ValueError("got both op and average: give op alone")
    if op is None:
        return Sum if average is False else Average
    if op not in (Average, Sum):
        raise ValueError(f"got op = {op!r}: expected Average or Sum")
    return op


class _Allreduce(torch.autograd.Function):
    """The gradient of a sum over ranks is the sum of the gradients over ranks, and so for the mean."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, op: ReduceOp) -> Tensor:
        ctx.op = op
        function = mpi_allreduce.mean_ if op is Average else mpi_allreduce.sum_
        return function(world.current().comm, tensor.detach().clone())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _Allreduce.apply(gradients[0], ctx.op), None


def allreduce(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: torch.dtype | None = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Tensor:
    """The mean or sum of a tensor over all ranks; the tensor itself stays as it is.

    `postscale · (1/n) sum_i prescale · x_i`, without 1/n for `op=Sum`

    Args:
        tensor: any shape and dtype, the same on every rank; gradients flow through.
        average: Horovod's older way to say `op`.
        name: accepted as Horovod does; operations are matched by their order.
        compression: `Compression.fp16` rounds to half precision first; sums are in float32 all the same.
        op: `Average` (default) or `Sum`.
        prescale_factor, postscale_factor: multiply before and after.

    Raises:
        ValueError: not initialized, or another operation.

    Example:
        >>> import hvd_gossip.torch as hvd
        >>> hvd.init()
        >>> hvd.allreduce(torch.tensor(3.0), op=hvd.Sum).item() / hvd.size()
        3.0
    """
    op = reduction(op, average)
    sent = tensor if prescale_factor == 1.0 else tensor * prescale_factor
    if compression is not None and sent.is_floating_point():
        sent = sent.to(compression)
    result = _Allreduce.apply(sent, op)
    return (result if postscale_factor == 1.0 else result * postscale_factor).to(tensor.dtype)


def broadcast_object(obj: Any = None, root_rank: int = 0, name: str | None = None) -> Any:
    """Any picklable object from rank `root_rank` to all; returns it on every rank."""
    here = world.current()
    check_root(root_rank)
    return here.comm.bcast(obj, root=root_rank)


def broadcast_parameters(params: Mapping[str, Any] | Iterable[Any], root_rank: int = 0) -> None:
    """Overwrite tensors with those of rank `root_rank`, in place.

    Args:
        params: `model.state_dict()`, `model.named_parameters()`, or `model.parameters()`.
        root_rank: whose values are taken.

    Raises:
        ValueError: on every rank, when names, shapes or dtypes differ between ranks.
    """
    check_root(root_rank)
    here = world.current()
    finish_exchanges()
    pairs = named_tensors(params)
    here.agree("the list of parameters", [(name, tuple(t.shape), str(t.dtype)) for name, t in pairs])
    for _, tensor in pairs:
        broadcast_(here.comm, tensor, root_rank)


def named_tensors(params: Mapping[str, Any] | Iterable[Any]) -> list[tuple[str, Tensor]]:
    """Names and tensors of a state dict, of named parameters, or of parameters without names."""
    if isinstance(params, Tensor) or not isinstance(params, Mapping | Iterable):
        raise ValueError(f"got params of type {type(params).__name__}: expected model.state_dict() or the like")
    items = list(params.items()) if isinstance(params, Mapping) else list(params)
    pairs = [item if isinstance(item, tuple) else (str(index), item) for index, item in enumerate(items)]
    return [(name, value) for name, value in pairs if isinstance(value, Tensor)]


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int = 0, model: Any = None) -> None:
    """Give every rank the optimizer state of rank `root_rank`: options, momentum, step counts.

    What a distributed optimizer's algorithm remembers of earlier steps is dropped on all ranks.

    Args:
        optimizer: plain or distributed.
        root_rank: whose state is taken.
        model: accepted as Horovod does; sparse parameters need no telling.
    """
    check_root(root_rank)
    here = world.current()
    data = io.BytesIO()
    if here.rank == root_rank:
        state_dict = optimizer.state_dict()
        state_dict.get("hvd_gossip", {}).pop("algorithm", None)
        torch.save(state_dict, data)
    length = here.comm.bcast(data.tell(), root=root_rank)
    state = torch.frombuffer(bytearray(data.getvalue().ljust(length, b"\0")), dtype=torch.uint8)
    broadcast_(here.comm, state, root_rank)
    if here.rank != root_rank:
        optimizer.load_state_dict(torch.load(io.BytesIO(state.numpy().tobytes()), weights_only=True))
    engine = getattr(optimizer, "gossip", None)
    if engine is not None:
        # What an algorithm remembers is of each rank's own parameters, and fits no longer.
        engine.start_afresh()


def check_root(root_rank: int) -> None:
    """Refuse a rank that does not exist."""
    size = world.current().size
    if not 0 <= root_rank < size:
        raise ValueError(f"got root_rank = {root_rank}, expected 0 to {size - 1}")
