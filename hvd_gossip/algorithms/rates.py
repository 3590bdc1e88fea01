"""Arithmetic with learning rates, which are numbers or vectors and may be 0."""

from __future__ import annotations

import torch
from torch import Tensor


def over(values: Tensor, rate: float | Tensor, otherwise: Tensor) -> Tensor:
    """`values/rate`, and `otherwise` where the rate is 0.

    Example:
        >>> over(torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.0]), torch.zeros(2)).tolist()
        [2.0, 0.0]
    """
    if isinstance(rate, Tensor):
        return torch.where(rate == 0, otherwise, values / rate)
    return values / rate if rate else otherwise


def largest(rates: list[float | Tensor]) -> float:
    """The largest of all learning rates."""
    return max(float(rate.max()) if isinstance(rate, Tensor) else rate for rate in rates)
