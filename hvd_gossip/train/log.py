"""What a run tells: metrics.jsonl, TensorBoard events, and a bar or lines on rank 0's standard output."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hvd_gossip.train.checkpoint import write

SCALARS = (
    "rate",
    "train_loss",
    "loss",
    "accuracy",
    "accuracy_mean",
    "accuracy_worst",
    "consensus_distance",
    "bytes_per_step",
    "seconds",
    "compute_seconds_per_step",
    "communication_seconds_per_step",
)
"""Entries of a record that become TensorBoard curves."""


def is_terminal() -> bool:
    """Whether a person watches: mpirun may give its ranks a terminal though its own output goes to a file."""
    if not sys.stdout.isatty():
        return False
    try:
        target = Path(f"/proc/{os.getppid()}/fd/1").readlink()
    except OSError:
        return True
    return str(target).startswith(("/dev/pts/", "/dev/tty", "/dev/console"))


def console() -> Console:
    """Where tables go: as wide as the terminal, or wide enough for any."""
    return Console(force_terminal=is_terminal(), width=None if is_terminal() else 180)


def finite(value: Any) -> Any:
    """JSON has no NaN or infinity: they become null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return [finite(item) for item in value] if isinstance(value, list) else value


def read(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics.jsonl; a last line cut short by an interruption is left out.

    Raises:
        ValueError: another line is damaged, or the lines are not those of epochs 1, 2, 3, …
    """
    try:
        lines = path.read_text().splitlines() if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    records = []
    for number, text in enumerate(lines, start=1):
        try:
            record = json.loads(text)
        except json.JSONDecodeError as error:
            if number < len(lines):
                raise ValueError(f"{path}, line {number} is damaged: {error}") from error
            break
        if not isinstance(record, dict) or record.get("epoch") != number:
            raise ValueError(f"{path}, line {number} is damaged: expected the record of epoch {number}")
        records.append(record)
    return records


class Log:
    """Rank 0's record of a run.

    Args:
        folder: the run folder.
        done: epochs already trained; records of later ones, left by an interruption, are dropped.
        epochs, steps: length of the run, and of an epoch.
        progress: "auto", "bar", "lines" or "none".
    """

    def __init__(self, folder: Path, done: int, epochs: int, steps: int, progress: str) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.path = folder / "metrics.jsonl"
        records = read(self.path)[:done]
        if len(records) < done:
            raise ValueError(f"{self.path} holds {len(records)} epochs, the checkpoint is of epoch {done}: restore it")
        write(self.path, "".join(json.dumps(record) + "\n" for record in records).encode())
        self.events = SummaryWriter(str(folder / "tensorboard"), purge_step=done + 1 if done else None)
        self.epochs, self.steps = epochs, steps
        kind = ("bar" if is_terminal() else "lines") if progress == "auto" else progress
        self.lines = kind in ("bar", "lines")
        console = Console(force_terminal=True if kind == "bar" else None)
        columns = (TextColumn("epoch {task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, console=console, disable=kind != "bar", transient=True)
        self.task = self.bar.add_task("", total=steps)
        self.bar.start()

    def begin(self, epoch: int) -> None:
        """An epoch starts, counted from 1."""
        self.bar.reset(self.task, total=self.steps, description=f"{epoch}/{self.epochs}")

    def step(self) -> None:
        """A step is done."""
        self.bar.advance(self.task)

    def epoch(self, record: dict[str, Any]) -> None:
        """An epoch is done."""
        with self.path.open("a") as file:
            file.write(json.dumps({key: finite(value) for key, value in record.items()}) + "\n")
        for name in SCALARS:
            self.events.add_scalar(name, record[name], record["epoch"])
        self.events.flush()
        if self.lines:
            self.bar.console.print(line(record, self.epochs), markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Nothing more to tell."""
        self.bar.stop()
        self.events.close()


def line(record: dict[str, Any], epochs: int) -> str:
    """One epoch in one line."""
    return (
        f"epoch {record['epoch']:>{len(str(epochs))}}/{epochs}  train loss {record['train_loss']:.4f}  "
        f"accuracy: averaged {100 * record['accuracy']:.2f} %, replicas {100 * record['accuracy_mean']:.2f} % "
        f"(worst {100 * record['accuracy_worst']:.2f} %)  consensus distance {record['consensus_distance']:.3g}  "
        f"{record['seconds']:.1f} s"
    )
