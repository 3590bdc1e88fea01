"""Tensors, ranks and weights as neighbour operations take them, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)
"""What can be averaged."""


def check_dense(tensor: Any) -> None:
    """Refuse what is no tensor with values in memory."""
    if not isinstance(tensor, Tensor):
        raise ValueError(f"got {type(tensor).__name__}: expected a tensor")
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type == "meta":
        kind = "quantized" if tensor.is_quantized else f"{tensor.layout} on {tensor.device.type}"
        raise ValueError(f"got a tensor that is {kind}: expected a dense one; use to_dense() or dequantize()")


def check_tensor(tensor: Any, in_place: bool = False) -> None:
    """Refuse what has no average."""
    check_dense(tensor)
    if tensor.dtype not in FLOATS:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in FLOATS)
        raise ValueError(f"got {tensor.dtype}: expected a tensor of floating-point or complex numbers ({names})")
    if in_place and any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True)):
        raise ValueError("got an expanded tensor, whose elements share memory: use clone(), or the form not in place")


def described(tensor: Tensor) -> str:
    """Dtype and shape of a tensor, which are the same on all ranks."""
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"


def values_of(tensor: Tensor) -> Tensor:
    """Its values as they are, in contiguous memory: conjugates and negatives of views are worked out."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def averaged_copy(tensor: Tensor, in_place: bool, average: Callable[[Tensor], None]) -> Tensor:
    """Let `average` change a tensor as a flat vector: the tensor itself, or a copy of it."""
    out = tensor.detach() if in_place else tensor.detach().clone()
    flat = values_of(out).view(-1)
    average(flat)
    if out.is_conj() or out.is_neg() or flat.data_ptr() != out.data_ptr():
        out.copy_(flat.view(out.shape))
    return tensor if in_place else out


def weight(name: str, value: Any) -> float:
    """A finite number.

    Raises:
        ValueError: something else.
    """
    try:
        number = math.nan if isinstance(value, str | bytes | bool) else float(value)
    except (TypeError, ValueError, RuntimeError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"got {name} = {value!r}: expected a finite number")
    return number


def rank_number(name: str, value: Any) -> int:
    """A rank.

    Raises:
        ValueError: something else than a whole number.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"got {name} {value!r}: expected the number of a rank")
    return int(value)


def weights_by_rank(name: str, value: Any) -> dict[int, float]:
    """Weights by rank.

    Raises:
        ValueError: something else than a dictionary of ranks and finite numbers.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"got {name} = {value!r}: expected a dictionary, rank: weight")
    return {rank_number(f"{name} of rank", rank): weight(f"{name}[{rank!r}]", of) for rank, of in value.items()}


def scales_by_rank(name: str, value: Any) -> dict[int, float]:
    """Weights by rank, or ranks alone, whose weight is 1.

    Raises:
        ValueError: neither, or a rank stands twice.
    """
    if isinstance(value, Mapping):
        return weights_by_rank(name, value)
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Tensor):
        raise ValueError(f"got {name} = {value!r}: expected a dictionary, rank: weight, or a list of ranks")
    ranks = [rank_number(f"{name} with", rank) for rank in value]
    if twice := sorted({rank for rank in ranks if ranks.count(rank) > 1}):
        raise ValueError(f"{name} names rank {twice[0]} twice: name each rank once")
    return dict.fromkeys(ranks, 1.0)
