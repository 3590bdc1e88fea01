"""What `DistributedOptimizer` refuses before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from hvd_gossip.algorithms import Algorithm
from hvd_gossip.torch.collectives import Average, ReduceOp, reduction


def check_hints(passes: int, op: ReduceOp, predivide: float, process_set: None) -> None:
    """Refuse values of Horovod's arguments that have no meaning."""
    if isinstance(passes, bool) or not isinstance(passes, int) or passes < 1:
        raise ValueError(f"got backward_passes_per_step = {passes!r}, expected an integer of at least 1")
    if reduction(op) is not Average and predivide != 1.0:
        raise ValueError("got gradient_predivide_factor together with op=Sum: it belongs to op=Average")
    if not predivide > 0:
        raise ValueError(f"got gradient_predivide_factor = {predivide!r}, expected a positive number")
    if process_set is not None:
        raise ValueError("got a process_set: give init(comm) a communicator of the ranks that shall train together")


def check_gradient_options(method: Algorithm, compression: torch.dtype | None, op: ReduceOp) -> None:
    """Refuse what the algorithm cannot do with what it exchanges: gradients or parameters."""
    expected = (None, torch.float16) if method.centralized else (None, torch.float16, torch.bfloat16)
    if compression not in expected:
        names = ", ".join("none" if dtype is None else str(dtype).removeprefix("torch.") for dtype in expected)
        what = "gradients of allreduce" if method.centralized else "parameters"
        raise ValueError(f"got compression = {compression!r}: {what} are sent as one of {names}")
    if method.centralized:
        return
    if op is not Average:
        raise ValueError(f"got op = {op!r}: gossip averages parameters, use op=Average or algorithm='allreduce'")


def check_method(
    method: Algorithm, groups: Iterable[Mapping[str, Any]], wire: torch.dtype | None, group_size: int | str | None
) -> None:
    """Refuse what an algorithm cannot be combined with."""
    if method.brings_momentum and (own := [g["momentum"] for g in groups if g.get("momentum", 0) > 0]):
        raise ValueError(
            f"algorithm {method.name!r} brings a momentum of its own, got an optimizer with momentum = {own[0]}: set "
            f"that to 0 and give {method.name}:momentum={own[0]}"
        )
    if wire is not None and not method.rounds_wire:
        raise ValueError(f"algorithm {method.name!r} cannot round what it sends, got {wire}: leave compression out")
    if group_size is not None and method.between_ranks:
        raise ValueError(f"algorithm {method.name!r} works between single ranks, got group_size = {group_size}")


def check_overlap(model: Any, parts: Any) -> None:
    """Refuse what is no model, and parts of another one."""
    if model is None and parts:
        raise ValueError("got parts without overlap: expected the model that they belong to as overlap")
    if model is not None and not isinstance(model, nn.Module):
        raise ValueError(f"got overlap = {model!r}: expected the model whose passes shall hide the exchange, or None")
    known = () if model is None else tuple(model.modules())
    if any(not any(part is module for module in known) for part in parts):
        raise ValueError("got parts with something that is no module of the model given as overlap")


def parameter_names(
    optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, Tensor]] | None
) -> dict[int, str]:
    """Names of the optimizer's parameters by id, made up by position where the user gave none.

    Raises:
        ValueError: a name stands twice, or a parameter of the optimizer has none.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if named_parameters is None:
        return {id(p): f"parameter {index}" for index, p in enumerate(parameters)}
    pairs = list(named_parameters)
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        raise ValueError("named_parameters: expected pairs of name and tensor, as model.named_parameters() gives")
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise ValueError(f"named_parameters: the name {name!r} stands twice; names must be unique")
        seen.add(name)
    names = {id(p): name for name, p in pairs}
    if missing := sum(id(p) not in names for p in parameters):
        raise ValueError(f"named_parameters lacks {missing} of the optimizer's {len(parameters)} parameters")
    return names
