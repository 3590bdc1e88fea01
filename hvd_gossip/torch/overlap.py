"""Exchanges that go on behind the forward and backward passes of a model, by hooks on it."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn

from hvd_gossip.torch.engine import Engine

_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


def hide_exchanges(model: nn.Module, engine: Engine) -> None:
    """Let the engine's exchanges begin as early, and end as late, as the model's passes allow.

    Adapt while communicate: from the forward pass to `step`. Adapt then combine: from `step` to the next forward pass.
    """

    @torch._disable_dynamo
    def before_forward(module: nn.Module, inputs: Any) -> None:
        engine.finish()
        if module.training and torch.is_grad_enabled():
            engine.start()

    model.register_forward_pre_hook(before_forward)
    model.register_state_dict_pre_hook(lambda *_: engine.finish())
    model.register_load_state_dict_pre_hook(lambda *_: engine.interrupt())
    _engines.add(engine)


def finish_exchanges() -> None:
    """End what goes on: from here on parameters are what they are without overlap, and may be changed on all ranks."""
    for engine in _engines:
        engine.interrupt()
