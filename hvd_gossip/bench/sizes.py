"""How much is exchanged: sizes in bytes, and the shapes of a real network."""

from __future__ import annotations

import re

import torch

UNITS = {"": 1, "B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "KIB": 1024, "MIB": 1024**2, "GIB": 1024**3}


def parse(text: str) -> int:
    """A number of float32 values from a size in bytes.

    Raises:
        ValueError: no size, or less than 4 bytes.

    Example:
        >>> parse("4KB"), parse("100 MiB")
        (1000, 26214400)
    """
    found = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    try:
        count = int(float(found[1]) * UNITS[found[2].upper()]) // 4 if found else 0
    except (KeyError, ValueError):
        count = 0
    if count < 1:
        raise ValueError(f"got size {text!r}: expected bytes, at least 4, for example 4KB, 1MB or 100MiB")
    return count


def resnet50_shapes() -> list[torch.Size]:
    """The 161 parameter tensors of ResNet-50 for 1,000 classes, 25,557,032 numbers. Source: arXiv:1512.03385."""
    shapes: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    width = 64
    for planes, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            for out, into, kernel in ((planes, width, 1), (planes, planes, 3), (4 * planes, planes, 1)):
                shapes += [(out, into, kernel, kernel), (out,), (out,)]
            if block == 0:
                shapes += [(4 * planes, width, 1, 1), (4 * planes,), (4 * planes,)]
            width = 4 * planes
    return [torch.Size(shape) for shape in [*shapes, (1000, 2048), (1000,)]]


SHAPES = {"resnet50": resnet50_shapes}


def name(count: int) -> str:
    """A number of float32 values as bytes in words.

    Example:
        >>> name(1000), name(25_000_000)
        ('4 KB', '100 MB')
    """
    size = 4.0 * count
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.4g} {unit}"
        size /= 1000
    return f"{size:.4g} GB"
