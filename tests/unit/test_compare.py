"""Runs side by side: reading run folders, the table, and the picture as a real PNG."""

from __future__ import annotations

import io
import json
import re
import statistics
import struct
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings, strategies as st
from rich.console import Console

from hvd_gossip import cli
from hvd_gossip.dbench.compare import Run, per_epoch, read, size_text, table
from hvd_gossip.dbench.curves import draw

CONFIG = {"n": 4, "task": "digits", "algorithm": "dpsgd", "graph": "ring", "allreduce": "mpi", "epochs": 3}


def record(epoch: int, **changed: Any) -> dict[str, Any]:
    """A made-up record of an epoch."""
    return {
        "epoch": epoch,
        "train_loss": 1 / epoch,
        "accuracy": 0.9,
        "accuracies": [0.5, 0.75, 0.875, 0.75],
        "accuracy_mean": 0.71875,
        "accuracy_worst": 0.5,
        "consensus_distance": 0.1 * epoch,
        "bytes_per_step": 306688.0,
        "seconds": float(epoch),
        **changed,
    }


def run(records: int = 3, config: dict[str, Any] | None = None, **changed: Any) -> Run:
    made = [record(epoch, **changed) for epoch in range(1, records + 1)]
    return Run(Path("runs/made-up"), CONFIG | (config or {}), made)


def save(folder: Path, made: Run) -> Path:
    """The run as a folder."""
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(made.config))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in made.records))
    return folder


ALLREDUCE = {"algorithm": "allreduce", "allreduce": "horovod"}


def test_a_run_folder_is_read(tmp_path: Path) -> None:
    found = read(save(tmp_path / "one", run()))
    assert (found.folder, found.config, found.records) == (tmp_path / "one", CONFIG, run().records)
    assert found.last == record(3)
    assert found.label == "dpsgd, ring"
    assert run(config=ALLREDUCE).label == "allreduce (horovod)"


def test_a_run_that_is_still_written_is_read(tmp_path: Path) -> None:
    folder = save(tmp_path / "one", run())
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 4, "acc')
    assert read(folder).last["epoch"] == 3


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{tmp_path} is no run folder: it has no config.yaml"):
        read(tmp_path)
    with pytest.raises(ValueError, match="nowhere is no run folder"):
        read(tmp_path / "nowhere")
    folder = save(tmp_path / "begun", run(records=0))
    for path in (folder / "metrics.jsonl", None):
        with pytest.raises(ValueError, match="begun: no epoch is done yet"):
            read(folder)
        if path:
            path.unlink()


@pytest.mark.parametrize("text", ["graph: [ring", "", "- a list", "just text", "graph: ring\n"])
def test_a_damaged_configuration_is_refused_by_name(tmp_path: Path, text: str) -> None:
    folder = save(tmp_path / "one", run())
    (folder / "config.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"config\.yaml"):
        read(folder)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (295680, "296 kB"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (1_234_567, "1.23 MB"),
        (4.2e9, "4.2 GB"),
    ],
)
def test_size_text(count: float, text: str) -> None:
    assert size_text(count) == text


@settings(deadline=None)
@given(st.floats(1, 9.9e14))
@example(999.5)
@example(999.5e9)
@example(1.5e12)
def test_sizes_have_three_digits_and_the_right_value(count: float) -> None:
    found = re.fullmatch(r"(\d{1,3}|\d\.\d\d?|\d\d\.\d) (B|kB|MB|GB|TB)", size_text(count))
    assert found is not None, size_text(count)
    value = float(found[1]) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[found[2]]
    assert value == pytest.approx(count, rel=0.0051)


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 1e4), min_size=1, max_size=9))
def test_seconds_of_an_epoch_are_the_median_without_the_first(seconds: list[float]) -> None:
    made = Run(Path(), CONFIG, [record(1, seconds=value) for value in seconds])
    assert per_epoch(made) == pytest.approx(statistics.median(seconds[1:] or seconds))


def test_the_table_has_a_line_for_each_run() -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(table([run(seconds=2.5), run(2, ALLREDUCE, accuracy=0.98765, bytes_per_step=0.0, seconds=1.5)]))
    lines = [" ".join(line.split()) for line in console.export_text().splitlines()]
    assert "dpsgd, ring 4 3/3 90.00 71.88 50.00 307 kB 2.50" in lines
    assert "allreduce (horovod) 4 2/3 98.77 71.88 50.00 0 B 1.50" in lines
    assert "algorithm, graph n epochs averaged % mean replica % worst replica % sent/step/rank s/epoch" in lines


def check_png(path: Path) -> None:
    """A whole PNG of some size: signature, header, and the end mark."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert data[12:16] == b"IHDR"
    width, height = struct.unpack(">II", data[16:24])
    assert width > 1000
    assert height > 300
    assert data[-8:-4] == b"IEND"


@pytest.mark.parametrize(
    "runs",
    [
        [run()],
        [run(records=1)],
        [run(config=ALLREDUCE, consensus_distance=0.0)],
        [run(), run(config=ALLREDUCE, consensus_distance=0.0), run(config={"graph": "complete"})],
        [run(train_loss=None)],
        [run(config={"graph": f"own_{number}"}) for number in range(9)],
    ],
    ids=["one", "one epoch", "centralized", "several", "diverged", "more than colours"],
)
def test_the_picture_is_a_png(tmp_path: Path, runs: list[Run]) -> None:
    path = draw(runs, tmp_path / "pictures" / "curves.png")
    assert path == tmp_path / "pictures" / "curves.png"
    check_png(path)


@pytest.mark.parametrize("name", ["curves", "curves.pdf", "curves.of.runs"])
def test_another_name_gives_a_png_all_the_same_or_is_refused(tmp_path: Path, name: str) -> None:
    try:
        path = draw([run()], tmp_path / name)
    except ValueError as error:
        assert "png" in str(error)
    else:
        check_png(path)


def test_report_shows_table_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folders = [save(tmp_path / "one", run()), save(tmp_path / "two", run(config=ALLREDUCE))]
    cli.main(["report", *map(str, folders), "--plot", str(tmp_path / "curves.png")])
    shown = capsys.readouterr().out
    assert "dpsgd, ring" in shown
    assert "allreduce (horovod)" in shown
    assert f"curves: {tmp_path / 'curves.png'}" in shown
    check_png(tmp_path / "curves.png")
