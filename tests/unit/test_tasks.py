"""Tasks that are bundled or read IDX files: sizes, normalization, determinism; damaged files are refused by text."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from hvd_gossip.models import MODELS
from hvd_gossip.tasks import TASKS, Images, Task, load
from hvd_gossip.tasks.fashion_mnist import FILES, read_idx


def test_tasks_are_found_by_name() -> None:
    assert {"digits", "fashion_mnist", "cifar10"} <= set(TASKS)
    with pytest.raises(ValueError, match=r"unknown task 'digit': expected one of .*; did you mean 'digits'"):
        load("digit")


def check_normalized(task: Task) -> None:
    """Float32 images whose training channels have mean 0 and deviation 1; int64 labels of the classes."""
    inputs = task.train.inputs.double()
    assert inputs.mean(dim=(0, 2, 3)).abs().max() < 1e-5
    assert (inputs.std(dim=(0, 2, 3), correction=0) - 1).abs().max() < 1e-5
    for images in (task.train, task.test):
        assert (images.inputs.dtype, images.labels.dtype) == (torch.float32, torch.int64)
        assert images.inputs.shape == (len(images), *task.shape)
        assert 0 <= images.labels.min() <= images.labels.max() < task.classes
    assert task.model in MODELS


def test_digits_sizes_and_normalization() -> None:
    task = load("digits")
    assert (len(task.train), len(task.test), task.shape, task.classes) == (1437, 360, (1, 8, 8), 10)
    check_normalized(task)
    assert set(task.train.labels.tolist()) == set(task.test.labels.tolist()) == set(range(10))


def test_digits_are_the_same_every_time_and_complete() -> None:
    from sklearn.datasets import load_digits

    one, other = load("digits"), load("digits")
    for a, b in ((one.train, other.train), (one.test, other.test)):
        assert torch.equal(a.inputs, b.inputs)
        assert torch.equal(a.labels, b.labels)
    pixels, labels = load_digits(return_X_y=True)
    inputs = torch.cat([one.test.inputs, one.train.inputs]).flatten(1).double()
    found = sorted(zip(torch.cat([one.test.labels, one.train.labels]).tolist(), rank_pixels(inputs), strict=True))
    assert found == sorted(zip(labels.tolist(), rank_pixels(torch.from_numpy(pixels)), strict=True))


def rank_pixels(images: torch.Tensor) -> list[tuple[int, ...]]:
    """Each image with its values replaced by their ranks among all 17 grey levels: undoes a normalization."""
    levels, ranks = images.round(decimals=3).unique(return_inverse=True)
    assert len(levels) == 17
    return [tuple(image) for image in ranks.view(len(images), -1).tolist()]


def test_a_batch_is_fetched_as_a_whole() -> None:
    images = Images(torch.arange(20.0).view(5, 1, 2, 2), torch.arange(5))
    inputs, labels = images.__getitems__([3, 0, 3])
    assert labels.tolist() == [3, 0, 3]
    assert torch.equal(inputs, images.inputs[[3, 0, 3]])
    assert len(images) == 5


def idx(values: np.ndarray, kind: int = 8) -> bytes:
    """The bytes of an IDX file."""
    return bytes([0, 0, kind, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def arrays() -> list[np.ndarray]:
    """Made-up pixels and labels of 30 training and 20 test images."""
    generator = np.random.default_rng(0)
    shapes = ((30, 28, 28), (30,), (20, 28, 28), (20,))
    return [generator.integers(0, 256 if len(shape) == 3 else 10, shape, dtype=np.uint8) for shape in shapes]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, values in zip(FILES, arrays(), strict=True):
        (tmp_path / name).write_bytes(idx(values))
    return tmp_path


def pack(folder: Path, name: str, data: bytes | None = None) -> None:
    """Replace a file by its compressed form."""
    (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()) if data is None else data)
    (folder / name).unlink()


@pytest.mark.parametrize("packed", [(), FILES, FILES[1:3]])
def test_fashion_mnist_reads_plain_and_compressed_files(folder: Path, packed: tuple[str, ...]) -> None:
    for name in packed:
        pack(folder, name)
    task = load("fashion_mnist", str(folder))
    assert (len(task.train), len(task.test), task.shape) == (30, 20, (1, 28, 28))
    check_normalized(task)
    pixels, labels, test_pixels, test_labels = arrays()
    assert task.train.labels.tolist() == labels.tolist()
    assert task.test.labels.tolist() == test_labels.tolist()
    # The training set's mean and deviation are used for the test set too.
    expected = (test_pixels - pixels.mean()) / pixels.std()
    np.testing.assert_allclose(task.test.inputs[:, 0].numpy(), expected, atol=1e-4)


def test_idx_files_of_any_shape_are_read(tmp_path: Path) -> None:
    for number, shape in enumerate(((5,), (2, 3), (2, 3, 4), (0, 28, 28))):
        values = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
        (tmp_path / str(number)).write_bytes(idx(values))
        np.testing.assert_array_equal(read_idx(tmp_path / str(number)), values)


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut data": (lambda data: data[:-1], "holds .* bytes of data, its header says"),
    "data too long": (lambda data: data + b"\0", "holds .* bytes of data, its header says"),
    "cut header": (lambda data: data[:10], "{name}"),
    "cut in the first bytes": (lambda data: data[:3], "is not an IDX file of unsigned bytes"),
    "empty": (lambda data: b"", "is not an IDX file of unsigned bytes"),
    "another kind of numbers": (lambda data: b"\0\0\x0d" + data[3:], "is not an IDX file of unsigned bytes"),
    "something else": (lambda data: b"<!DOCTYPE html>" * 100, "is not an IDX file of unsigned bytes: it starts with"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES[:2])
@pytest.mark.parametrize("packed", [False, True])
def test_a_damaged_file_is_refused_by_name(folder: Path, name: str, damage: str, packed: bool) -> None:
    change, text = DAMAGES[damage]
    (folder / name).write_bytes(change((folder / name).read_bytes()))
    if packed:
        pack(folder, name)
    with pytest.raises(ValueError, match=text.format(name=name)) as caught:
        load("fashion_mnist", str(folder))
    assert name in str(caught.value)


@pytest.mark.parametrize("damage", ["cut", "no gzip", "bad block", "bad checksum"])
def test_a_damaged_compressed_file_is_refused_by_name(folder: Path, damage: str) -> None:
    data = gzip.compress((folder / FILES[0]).read_bytes())
    damaged = {
        "cut": data[: len(data) // 2],
        "no gzip": b"hello" + data,
        "bad block": data[:10] + b"\xff" * (len(data) - 10),
        "bad checksum": data[:-8] + bytes(4) + data[-4:],
    }[damage]
    pack(folder, FILES[0], damaged)
    with pytest.raises(ValueError, match=rf"{FILES[0]}\.gz is damaged"):
        load("fashion_mnist", str(folder))


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ValueError, match=rf"{name} is missing, also as {name}\.gz"):
        load("fashion_mnist", str(folder))


@pytest.mark.parametrize("part", [0, 2], ids=["train", "test"])
@pytest.mark.parametrize("wrong", ["few labels", "many labels", "label 10", "images for labels", "labels for images"])
def test_files_that_do_not_belong_together_are_refused(folder: Path, part: int, wrong: str) -> None:
    images, labels = arrays()[part : part + 2]
    images, labels = {
        "few labels": (images, labels[:-1]),
        "many labels": (images[:-1], labels),
        "label 10": (images, np.full_like(labels, 10)),
        "images for labels": (images, images),
        "labels for images": (labels, labels),
    }[wrong]
    (folder / FILES[part]).write_bytes(idx(images))
    (folder / FILES[part + 1]).write_bytes(idx(labels))
    with pytest.raises(ValueError, match=r"labels|images|classes"):
        load("fashion_mnist", str(folder))


@pytest.mark.parametrize("task", ["fashion_mnist", "cifar10"])
def test_the_folder_has_to_be_named_and_there(task: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"task '{task}' reads files: name the folder with .* by --data.folder"):
        load(task)
    with pytest.raises(ValueError, match=f"task '{task}': folder .*nowhere does not exist; expected "):
        load(task, str(tmp_path / "nowhere"))
