"""Models of the tasks: constructors that take the shape of one input and the number of classes.

Their forward passes call their children, and use no parameter of a child in another way.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from hvd_gossip.models.cnn import SmallCNN
from hvd_gossip.models.resnet import resnet20

MODELS: dict[str, Callable[..., nn.Module]] = {
    "cnn": SmallCNN,
    "resnet20": resnet20,
}

__all__ = ["MODELS", "SmallCNN", "resnet20"]
