"""Exchanges that go on behind the forward and backward passes of a model, by hooks on it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from hvd_gossip.torch.engine import Engine

_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


def hide_exchanges(model: nn.Module, engine: Engine, parts: Sequence[nn.Module] = ()) -> None:
    """Let the engine's exchanges begin as early, and end as late, as the model's passes allow.

    Adapt while communicate: from the forward pass to `step`. Adapt then combine: from `step` to the next forward pass,
    or to the call of each part in it.
    """
    within = {id(parameter) for part in parts for parameter in part.parameters()}
    rest = [parameter for parameter in model.parameters() if id(parameter) not in within]

    @torch._disable_dynamo
    def before_part(module: nn.Module, inputs: Any) -> None:
        engine.arrive(module.parameters())

    @torch._disable_dynamo
    def before_forward(module: nn.Module, inputs: Any) -> None:
        if parts and not engine.arriving:
            engine.arrive(rest)
        else:
            engine.finish()
        if module.training and torch.is_grad_enabled():
            engine.start()

    model.register_forward_pre_hook(before_forward)
    for part in parts:
        part.register_forward_pre_hook(before_part)
    model.register_state_dict_pre_hook(lambda *_: engine.finish())
    model.register_load_state_dict_pre_hook(lambda *_: engine.interrupt())
    _engines.add(engine)


def finish_exchanges() -> None:
    """End what goes on: from here on parameters are what they are without overlap, and may be changed on all ranks."""
    for engine in _engines:
        engine.interrupt()
