"""The state of an algorithm as plain values that torch saves and loads safely, and back."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from hvd_gossip.algorithms.base import State


def plain(state: State) -> Any:
    """Named tuples become dictionaries; lists, tensors and numbers stay, tensors as copies."""
    if isinstance(state, Tensor):
        return state.clone()
    if hasattr(state, "_asdict"):
        return {name: plain(value) for name, value in state._asdict().items()}
    return [plain(value) for value in state] if isinstance(state, list) else state


def restored(template: State, saved: Any) -> State:
    """What `plain` was given, in the shape and on the devices of a state of the same algorithm.

    Raises:
        ValueError: it is the state of another algorithm, or of other parameters.
    """
    if isinstance(template, Tensor):
        if not isinstance(saved, Tensor) or saved.shape != template.shape:
            raise ValueError(
                f"got an algorithm's state with {getattr(saved, 'shape', saved)} where {tuple(template.shape)} was "
                "expected: it is of other parameters"
            )
        return template.copy_(saved)
    if hasattr(template, "_asdict"):
        if not isinstance(saved, dict) or set(saved) != set(template._fields):
            told = sorted(saved) if isinstance(saved, dict) else saved
            raise ValueError(f"got an algorithm's state with {told}, expected {sorted(template._fields)}")
        return type(template)(**{name: restored(getattr(template, name), saved[name]) for name in template._fields})
    if isinstance(template, list) and template and len(template) == len(saved):
        return [restored(one, other) for one, other in zip(template, saved, strict=True)]
    return saved
