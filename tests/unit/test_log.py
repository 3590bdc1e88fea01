"""What a run tells: JSON without NaN, records that survive an interruption, one line for each epoch."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hvd_gossip.train.log import SCALARS, Log, finite, line, read

VALUES = st.recursive(
    st.one_of(st.floats(), st.integers(), st.text(), st.none(), st.booleans()), st.lists, max_leaves=8
)


def record(epoch: int, **changed: Any) -> dict[str, Any]:
    """A made-up record of an epoch."""
    return {"epoch": epoch, **dict.fromkeys(SCALARS, 0.5), "losses": [0.5, 0.25], **changed}


@settings(deadline=None)
@given(VALUES)
def test_finite_makes_json_and_keeps_everything_else(value: Any) -> None:
    def expected(part: Any) -> Any:
        if isinstance(part, list):
            return [expected(item) for item in part]
        return None if isinstance(part, float) and (math.isnan(part) or math.isinf(part)) else part

    found = finite(value)
    assert found == expected(value)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_finite_leaves_the_list_given_as_it_is() -> None:
    given_list = [math.inf, [math.nan, 1.0]]
    assert finite(given_list) == [None, [None, 1.0]]
    assert given_list[0] == math.inf


@pytest.mark.parametrize("text", [None, ""])
def test_no_file_and_an_empty_one_hold_no_records(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "metrics.jsonl"
    if text is not None:
        path.write_text(text)
    assert read(path) == []


def test_a_last_line_cut_anywhere_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [json.dumps(record(epoch, note="ä \u2028 line\nbreak")) for epoch in (1, 2)]
    for cut in range(len(lines[1])):
        path.write_text(lines[0] + "\n" + lines[1][:cut])
        assert read(path) == [json.loads(lines[0])]
    for end in ("", "\n"):
        path.write_text("\n".join(lines) + end)
        assert [entry["epoch"] for entry in read(path)] == [1, 2]


def test_epochs_are_written_and_read_back(tmp_path: Path) -> None:
    log = Log(tmp_path, done=0, epochs=2, steps=3, progress="none")
    log.begin(1)
    log.step()
    log.epoch(record(1, train_loss=math.nan, losses=[math.inf, 1.0]))
    log.epoch(record(2))
    log.close()
    first, second = read(tmp_path / "metrics.jsonl")
    assert (first["train_loss"], first["losses"]) == (None, [None, 1.0])
    assert second == record(2)
    assert list((tmp_path / "tensorboard").glob("events.*"))


def test_records_after_the_last_checkpoint_are_dropped_on_resuming(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(record(epoch)) + "\n" for epoch in (1, 2, 3)) + '{"epoch": 4, "ra')
    log = Log(tmp_path, done=2, epochs=4, steps=3, progress="none")
    assert [entry["epoch"] for entry in read(path)] == [1, 2]
    log.epoch(record(3, loss=0.125))
    log.close()
    assert [entry["epoch"] for entry in read(path)] == [1, 2, 3]
    assert read(path)[-1]["loss"] == 0.125


@pytest.mark.parametrize(("progress", "lines"), [("lines", 1), ("auto", 1), ("none", 0)])
def test_lines_are_shown_where_nobody_watches(
    tmp_path: Path, capsys: pytest.CaptureFixture, progress: str, lines: int
) -> None:
    log = Log(tmp_path, done=0, epochs=2, steps=3, progress=progress)
    log.epoch(record(1))
    log.close()
    shown = [text for text in capsys.readouterr().out.splitlines() if text]
    assert shown == [line(record(1), 2)] * lines


def test_a_line_tells_an_epoch() -> None:
    values = {"train_loss": 1.23456, "accuracy": 0.98765, "accuracy_mean": 0.5, "accuracy_worst": 0.25}
    shown = line(record(7, consensus_distance=0.0123456, seconds=2.345, **values), 160)
    assert shown.split(maxsplit=2)[:2] == ["epoch", "7/160"]
    for part in ("train loss 1.2346", "averaged 98.7", "replicas 50.00 %", "worst 25.00 %", "0.0123", "2.3 s"):
        assert part in shown
    assert "\n" not in shown


def test_lines_of_all_epochs_are_aligned() -> None:
    assert len({len(line(record(epoch), 100)) for epoch in (1, 10, 100)}) == 1


def test_a_run_that_diverged_is_told() -> None:
    assert "train loss nan" in line(record(1, train_loss=math.nan, consensus_distance=math.inf), 1)
