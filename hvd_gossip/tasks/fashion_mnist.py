"""Fashion-MNIST from its four IDX files, plain or compressed by gzip."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np

from hvd_gossip.tasks.base import Task, labelled, normalized_pair
from hvd_gossip.tasks.folder import find_folder

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def fashion_mnist(folder: str | None = None) -> Task:
    """60,000 training and 10,000 test images of ten kinds of clothing, 28 x 28 pixels.

    Args:
        folder: holds the IDX files, as the data set's authors or Debian's package dataset-fashion-mnist give them.

    Raises:
        ValueError: the folder or a file is missing, or a file is damaged.

    Source: arXiv:1708.07747.
    """
    place = find_folder("fashion_mnist", folder, "the four IDX files train-images-idx3-ubyte[.gz] …")
    pixels, labels, test_pixels, test_labels = (read_idx(place / name) for name in FILES)
    check_pair(place / FILES[0], pixels, labels)
    check_pair(place / FILES[2], test_pixels, test_labels)
    train, test = normalized_pair(
        (pixels[:, None] / np.float32(255), labels), (test_pixels[:, None] / np.float32(255), test_labels)
    )
    return Task("fashion_mnist", train, test, 10, "cnn", source="arXiv:1708.07747; recipe: our own")


def check_pair(path: Path, pixels: np.ndarray, labels: np.ndarray) -> None:
    """Refuse images and labels that do not belong together.

    Raises:
        ValueError: other dimensions, unequal counts, or a label that is none of the ten classes.
    """
    if pixels.ndim != 3 or labels.ndim != 1 or not labelled(pixels, labels, 10):
        raise ValueError(
            f"{path}: got images of shape {pixels.shape} and labels of shape {labels.shape} up to "
            f"{labels.max(initial=0)}, expected as many labels of 0 to 9 as images"
        )


def read_idx(path: Path) -> np.ndarray:
    """An IDX file of unsigned bytes, `path` itself or with .gz at its end.

    Raises:
        ValueError: the file is missing, or is not IDX of unsigned bytes, or is cut short.
    """
    packed = path.with_name(path.name + ".gz")
    if not path.exists() and not packed.exists():
        raise ValueError(f"{path} is missing, also as {packed.name}")
    try:
        data = path.read_bytes() if path.exists() else gzip.decompress(packed.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{packed} is damaged: {error}") from error
    if data[:3] != b"\x00\x00\x08" or len(data) < 4:
        raise ValueError(f"{path} is not an IDX file of unsigned bytes: it starts with {data[:4]!r}")
    if len(data) < 4 + 4 * data[3]:
        raise ValueError(f"{path} is cut short inside its header")
    shape = np.frombuffer(data, ">u4", count=data[3], offset=4)
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * data[3])
    if values.size != shape.prod():
        raise ValueError(f"{path} holds {values.size} bytes of data, its header says {shape.prod()}")
    return values.reshape(shape)
