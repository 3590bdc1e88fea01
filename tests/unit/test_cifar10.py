"""CIFAR-10 from made-up batches: read, augmented against a plain loop, and never allowed to run code."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from hvd_gossip.tasks import load
from hvd_gossip.tasks.cifar10 import TRAIN, read_batch, shift_and_mirror

NAMES = (*TRAIN, "test_batch")


def batch(seed: int, count: int = 6) -> dict[bytes, Any]:
    generator = np.random.default_rng(seed)
    pixels = generator.integers(0, 256, (count, 3072), dtype=np.uint8)
    return {b"batch_label": b"made up", b"labels": generator.integers(0, 10, count).tolist(), b"data": pixels}


def as_python_2_wrote(content: object) -> bytes:
    """The real files are pickles of protocol 2 that name numpy's arrays as numpy 1 did."""
    return pickle.dumps(content, protocol=2).replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed, name in enumerate(NAMES):
        (tmp_path / name).write_bytes(as_python_2_wrote(batch(seed)))
    return tmp_path


@pytest.mark.parametrize("inner", [False, True])
def test_batches_become_normalized_images_in_order(folder: Path, inner: bool) -> None:
    if inner:
        (folder / "cifar-10-batches-py").mkdir()
        for name in NAMES:
            (folder / name).rename(folder / "cifar-10-batches-py" / name)
    task = load("cifar10", str(folder))
    assert (len(task.train), len(task.test), task.shape, task.classes) == (30, 6, (3, 32, 32), 10)
    assert task.train.labels.tolist() == [label for seed in range(5) for label in batch(seed)[b"labels"]]
    pixels = np.concatenate([batch(seed)[b"data"] for seed in range(5)]).reshape(-1, 3, 32, 32).astype(float)
    mean, deviation = pixels.mean(axis=(0, 2, 3), keepdims=True), pixels.std(axis=(0, 2, 3), keepdims=True)
    np.testing.assert_allclose(task.train.inputs.numpy(), (pixels - mean) / deviation, atol=1e-4)
    test = batch(5)[b"data"].reshape(-1, 3, 32, 32)
    np.testing.assert_allclose(task.test.inputs.numpy(), (test - mean) / deviation, atol=1e-4)
    assert task.augment is shift_and_mirror


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_pickles_of_several_protocols_are_read(tmp_path: Path, protocol: int) -> None:
    (tmp_path / "b").write_bytes(pickle.dumps(batch(3), protocol=protocol))
    pixels, labels = read_batch(tmp_path / "b")
    np.testing.assert_allclose(pixels.reshape(-1, 3072) * 255, batch(3)[b"data"], atol=1e-4)
    assert labels.tolist() == batch(3)[b"labels"]


class Malicious:
    """Unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


class Evaluated:
    """Unpickling it evaluates a text."""

    def __init__(self, path: Path) -> None:
        self.text = f"__import__('pathlib').Path({str(path)!r}).touch()"

    def __reduce__(self) -> tuple:
        return eval, (self.text,)


class SavedByNumpy:
    """Unpickling it has numpy, which the reader needs, write a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple:
        return np.savetxt, (self.path, [1.0])


@pytest.mark.parametrize("kind", [Malicious, Evaluated, SavedByNumpy])
@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("place", [b"data", b"labels", b"more"])
def test_a_malicious_pickle_is_refused_and_not_executed(folder: Path, kind: type, protocol: int, place: bytes) -> None:
    mark = folder / "executed"
    data = pickle.dumps(batch(0) | {place: kind(mark)}, protocol=protocol)
    (folder / "data_batch_3").write_bytes(data)
    with pytest.raises(ValueError, match="data_batch_3 is not a batch of CIFAR-10 in its Python form: it asks for"):
        load("cifar10", str(folder))
    assert not mark.exists()
    pickle.loads(data)  # the test's own check: an unguarded reader runs it
    assert mark.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        as_python_2_wrote(batch(0))[:-100],
        pickle.dumps([1, 2, 3]),
        pickle.dumps({b"data": batch(0)[b"data"]}),
        pickle.dumps({"data": batch(0)[b"data"], "labels": batch(0)[b"labels"]}),
        pickle.dumps(batch(0) | {b"data": batch(0)[b"data"][:, :-1]}),
        pickle.dumps(batch(0) | {b"labels": ["cat"] * 6}),
        pickle.dumps(batch(0) | {b"labels": [0] * 5}),
        pickle.dumps(batch(0) | {b"labels": [10] * 6}),
        pickle.dumps(batch(0) | {b"labels": [-1] * 6}),
    ],
    ids=["empty", "text", "cut", "list", "no labels", "text keys", "few pixels", "names", "few labels", "10", "-1"],
)
def test_a_damaged_batch_is_refused_by_name(folder: Path, data: bytes) -> None:
    (folder / "test_batch").write_bytes(data)
    with pytest.raises(ValueError, match="test_batch is not a batch of CIFAR-10"):
        load("cifar10", str(folder))


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_batch_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ValueError, match=f"{name} is missing"):
        load("cifar10", str(folder))


def shifted(image: torch.Tensor, down: int, right: int, mirror: bool) -> torch.Tensor:
    """A plain loop: out[y, x] = in[y + down, x' + right], x' = x or its mirror image, zeros outside."""
    _, height, width = image.shape
    moved = torch.zeros_like(image)
    for y in range(height):
        for x in range(width):
            from_y, from_x = y + down, (width - 1 - x if mirror else x) + right
            if 0 <= from_y < height and 0 <= from_x < width:
                moved[:, y, x] = image[:, from_y, from_x]
    return moved


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(5, 9), st.integers(5, 9), st.integers(0, 10**6))
def test_each_image_is_shifted_by_up_to_four_pixels_and_perhaps_mirrored(
    count: int, channels: int, height: int, width: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(count, channels, height, width, generator=generator) + 1
    before = inputs.clone()
    outputs = shift_and_mirror(inputs, generator)
    assert torch.equal(inputs, before)
    moves = [(down, right, mirror) for down in range(-4, 5) for right in range(-4, 5) for mirror in (False, True)]
    for image, output in zip(inputs, outputs, strict=True):
        assert any(torch.equal(output, shifted(image, *move)) for move in moves)


def test_every_move_comes_up_alike_often() -> None:
    """One bright pixel beside the middle tells shift and mirror of each of many images."""
    count, size = 40_000, 16
    inputs = torch.zeros(count, 1, size, size)
    inputs[:, :, 7, 5] = 1
    outputs = shift_and_mirror(inputs, torch.Generator().manual_seed(0))
    places = outputs.flatten(1).argmax(dim=1)
    assert outputs.sum() == count
    rows, columns = (places // size).bincount(minlength=size), (places % size).bincount(minlength=size)
    assert rows.nonzero().flatten().tolist() == list(range(3, 12))
    # Unmirrored the pixel lands in columns 1 to 9, mirrored in 6 to 14.
    assert columns.nonzero().flatten().tolist() == list(range(1, 15))
    # Both directions are drawn by themselves: every row goes with every column.
    assert len(places.unique()) == 9 * 14
    deviation = (count * 1 / 9 * 8 / 9) ** 0.5
    assert ((rows[3:12] - count / 9).abs() < 5 * deviation).all()
    assert abs(int(columns[1:6].sum()) - count * 5 / 18) < 5 * (count * 5 / 18 * 13 / 18) ** 0.5


def test_the_generator_decides() -> None:
    inputs = torch.rand(8, 3, 32, 32)
    one, same, other = (shift_and_mirror(inputs, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
