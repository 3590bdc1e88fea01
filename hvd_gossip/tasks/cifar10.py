"""CIFAR-10 from its Python batches."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from hvd_gossip.tasks.base import Recipe, Task, labelled, normalized_pair
from hvd_gossip.tasks.folder import find_folder

TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
PADDING = 4


def cifar10(folder: str | None = None) -> Task:
    """50,000 training and 10,000 test images of ten kinds of things, 32 x 32 pixels in colour.

    Training images are shifted by up to 4 pixels and mirrored at random.

    Args:
        folder: holds data_batch_1 … data_batch_5 and test_batch, or the folder cifar-10-batches-py with them.

    Raises:
        ValueError: the folder or a file is missing, or a file is damaged.

    Source: A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009; recipe: arXiv:1512.03385.
    """
    place = find_folder("cifar10", folder, "data_batch_1 … data_batch_5 and test_batch")
    if (place / "cifar-10-batches-py").is_dir():
        place = place / "cifar-10-batches-py"
    parts = [read_batch(place / name) for name in TRAIN]
    train, test = normalized_pair(
        (np.concatenate([p for p, _ in parts]), np.concatenate([t for _, t in parts])), read_batch(place / "test_batch")
    )
    recipe = Recipe(epochs=160, batch_size=128, rate=0.1, weight_decay=1e-4, warmup_epochs=5.0)
    return Task("cifar10", train, test, 10, "resnet20", "arXiv:1512.03385", augment=shift_and_mirror, recipe=recipe)


class _BatchUnpickler(pickle.Unpickler):
    """Unpickles arrays and plain containers alone: a data file must not be able to run code."""

    ALLOWED: ClassVar = {
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module, name)


def read_batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Pixels in [0, 1] of shape [samples, 3, 32, 32] and labels of one batch file.

    Raises:
        ValueError: the file is missing, damaged, or holds something else.
    """
    if not path.exists():
        raise ValueError(f"{path} is missing")
    try:
        with path.open("rb") as file:
            batch = _BatchUnpickler(file, encoding="bytes").load()
        pixels, labels = np.asarray(batch[b"data"], np.uint8), np.asarray(batch[b"labels"], np.int64)
        if not labelled(pixels, labels, 10):
            raise ValueError(f"{len(pixels)} images and {len(labels)} labels, expected as many labels of 0 to 9")
        return pixels.reshape(-1, 3, 32, 32) / np.float32(255), labels
    except Exception as error:
        raise ValueError(f"{path} is not a batch of CIFAR-10 in its Python form: {error}") from error


def shift_and_mirror(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """Each image moved by up to 4 pixels in both directions, zeros coming in, and mirrored with probability 1/2."""
    count, _, height, width = inputs.shape
    padded = torch.nn.functional.pad(inputs, (PADDING,) * 4)
    shifts = torch.randint(0, 2 * PADDING + 1, (2, count), generator=generator)
    rows = (shifts[0][:, None] + torch.arange(height))[:, None, :, None]
    columns = torch.arange(width).expand(count, width)
    mirrored = torch.rand(count, generator=generator) < 0.5
    columns = torch.where(mirrored[:, None], columns.flip(1), columns) + shifts[1][:, None]
    samples = torch.arange(count)[:, None, None, None]
    channels = torch.arange(inputs.shape[1])[None, :, None, None]
    return padded[samples, channels, rows, columns[:, None, None, :]]
