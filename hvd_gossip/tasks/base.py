"""What a task is: data, loss, metric and the recipe that is used unless told otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Images:
    """Labelled images in memory.

    Attributes:
        inputs: float32 of shape [samples, channels, height, width], normalized.
        labels: int64 of shape [samples].
    """

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        """A whole batch at once: what torch's DataLoader asks for first."""
        chosen = torch.as_tensor(indices)
        return self.inputs[chosen], self.labels[chosen]


@dataclass(frozen=True)
class Recipe:
    """What training uses where the user says nothing; the rate is that of one replica with one batch.

    Attributes:
        epochs: passes over the data.
        batch_size: samples for each replica and step.
        rate: learning rate of SGD before it is scaled with the number of replicas.
        weight_decay: times the parameter, added to the gradient.
        warmup_epochs: epochs in which the rate rises from that of one replica to the scaled one.
    """

    epochs: int = 10
    batch_size: int = 32
    rate: float = 0.02
    weight_decay: float = 1e-4
    warmup_epochs: float = 1.0


@dataclass(frozen=True)
class Task:
    """Image classification on real data.

    Attributes:
        name: what the user called it.
        train, test: the two sets.
        classes: number of labels.
        model: the model that is trained unless another is asked for.
        augment: changes a batch of training inputs at random, drawing from the generator given; or None.
        recipe: what training uses where the user says nothing.
        source: where data and recipe are from.
    """

    name: str
    train: Images
    test: Images
    classes: int
    model: str
    source: str
    augment: Callable[[Tensor, torch.Generator], Tensor] | None = None
    recipe: Recipe = Recipe()

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of one image."""
        channels, height, width = self.train.inputs.shape[1:]
        return channels, height, width


def images(pixels: np.ndarray, labels: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> Images:
    """Normalized images from pixels of shape [samples, channels, height, width]."""
    inputs = (pixels.astype(np.float32) - mean.reshape(1, -1, 1, 1)) / deviation.reshape(1, -1, 1, 1)
    return Images(torch.from_numpy(inputs.astype(np.float32)), torch.from_numpy(np.asarray(labels, dtype=np.int64)))


def labelled(pixels: np.ndarray, labels: np.ndarray, classes: int) -> bool:
    """Whether there is one label for each image, and each is one of 0 … classes − 1."""
    return len(pixels) == len(labels) and labels.min(initial=0) >= 0 and labels.max(initial=0) < classes


def normalized_pair(train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]) -> tuple[Images, Images]:
    """Both sets, normalized by the mean and deviation of each channel of the training set."""
    mean = train[0].mean(axis=(0, 2, 3), dtype=np.float64)
    deviation = train[0].std(axis=(0, 2, 3), dtype=np.float64)
    return images(*train, mean, deviation), images(*test, mean, deviation)
