"""Many runs, diverged runs and damaged records in one comparison."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from hvd_gossip.dbench import compare, curves
from hvd_gossip.train.config import TrainConfig, nested


def run(folder: Path, distances: list[float | None], **config: Any) -> compare.Run:
    """A run folder with one epoch for each consensus distance."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump({**nested(TrainConfig()), "n": 4, "epochs": 3, **config}))
    records = [
        {
            "epoch": epoch,
            "accuracy": 0.5,
            "accuracy_mean": 0.4,
            "accuracy_worst": 0.3,
            "accuracies": [0.3, 0.5],
            "bytes_per_step": 8.0,
            "seconds": 1.0,
            "train_loss": distance,
            "consensus_distance": distance,
        }
        for epoch, distance in enumerate(distances, start=1)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return compare.read(folder)


def test_runs_that_look_alike_are_told_apart(tmp_path: Path) -> None:
    runs = [run(tmp_path / "a", [0.1]), run(tmp_path / "b", [0.1], seed=2), run(tmp_path / "c", [0.1], graph="ring")]
    assert compare.labels(runs) == [
        f"dpsgd, exponential [{tmp_path / 'a'}]",
        f"dpsgd, exponential [{tmp_path / 'b'}]",
        "dpsgd, ring",
    ]
    console = Console(width=300, record=True, file=io.StringIO())
    console.print(compare.table(runs))
    shown = console.export_text()
    assert all(label in shown for label in compare.labels(runs))


def test_numbers_of_replicas_stand_in_labels_and_title_where_they_differ(tmp_path: Path) -> None:
    runs = [run(tmp_path / "a", [0.1]), run(tmp_path / "b", [0.1], n=2)]
    assert compare.labels(runs) == ["dpsgd, exponential, n=4", "dpsgd, exponential, n=2"]
    assert curves.title_of(runs) == "digits: 2, 4 replicas"
    assert curves.title_of(runs[:1]) == "digits: 4 replicas"


def test_only_replicas_that_never_differ_count_as_equal(tmp_path: Path) -> None:
    assert curves.always_equal(run(tmp_path / "a", [0.0, 0.0]))
    assert not curves.always_equal(run(tmp_path / "b", [0.0, 0.1]))
    assert not curves.always_equal(run(tmp_path / "c", [None, 0.0]))


def test_diverged_and_equal_runs_are_drawn(tmp_path: Path) -> None:
    runs = [
        run(tmp_path / "a", [None, None]),
        run(tmp_path / "b", [0.0]),
        *(run(tmp_path / f"{i}", [0.1]) for i in range(9)),
    ]
    assert curves.draw(runs, tmp_path / "x.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert curves.draw(runs[:2], tmp_path / "y.png").exists()


@pytest.mark.parametrize("line", ["{}", "[1]", "5", '{"epoch": 2}', '{"epoch": 1, "accuracy": null}'])
def test_damaged_records_are_refused(tmp_path: Path, line: str) -> None:
    run(tmp_path / "a", [0.1])
    (tmp_path / "a" / "metrics.jsonl").write_text(line + "\n")
    with pytest.raises(ValueError, match=r"metrics\.jsonl.*is damaged"):
        compare.read(tmp_path / "a")


def test_repeated_and_missing_epochs_are_refused(tmp_path: Path) -> None:
    run(tmp_path / "a", [0.3, 0.2, 0.1])
    path = tmp_path / "a" / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    for wrong in ([lines[0], lines[0], lines[1]], [lines[0], lines[2]]):
        path.write_text("".join(wrong))
        with pytest.raises(ValueError, match="line 2 is damaged: expected the record of epoch 2"):
            compare.read(tmp_path / "a")


@pytest.mark.parametrize("wrong", [{"algorithm": 5}, {"n": "x"}, {"epochs": "banana"}, {"algorithm": "sgp"}])
def test_damaged_configurations_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="damaged|unknown algorithm"):
        run(tmp_path / "a", [0.1], **wrong)


@pytest.mark.parametrize("name", ["x.jpg", "x", "folder.png"])
def test_a_picture_that_cannot_be_written_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(ValueError, match=r"ends in \.png|cannot be written"):
        curves.draw([run(tmp_path / "a", [0.1])], tmp_path / name)
