"""Runs side by side: their last epochs as a table."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich import box
from rich.table import Table
from rich.text import Text

from hvd_gossip.algorithms import algorithm
from hvd_gossip.train import log


@dataclass(frozen=True)
class Run:
    """A run folder as it stands.

    Attributes:
        folder: where it is; config: as resolved; records: one for each epoch, at least one.
    """

    folder: Path
    config: dict[str, Any]
    records: list[dict[str, Any]]

    @property
    def label(self) -> str:
        """Graph and algorithm; a centralized algorithm has no graph."""
        name = self.config["algorithm"]
        if algorithm(name).centralized:
            return f"{name} ({self.config['allreduce']})"
        return f"{name}, {self.config['graph']}"

    @property
    def last(self) -> dict[str, Any]:
        """The record of the last epoch."""
        return self.records[-1]


def read(folder: Path) -> Run:
    """The run in a folder.

    Raises:
        ValueError: it holds no run, or none with an epoch that is done.
    """
    path = folder / "config.yaml"
    if not path.exists():
        raise ValueError(f"{folder} is no run folder: it has no config.yaml")
    records = log.read(folder / "metrics.jsonl")
    if not records:
        raise ValueError(f"{folder}: no epoch is done yet")
    try:
        config = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    check_config(path, config)
    for record in records:
        check_record(folder / "metrics.jsonl", record)
    return Run(folder, config, records)


def check_config(path: Path, config: Any) -> None:
    """Refuse a configuration that lacks what a comparison needs."""
    kinds = {"n": int, "task": str, "graph": str, "algorithm": str, "allreduce": str, "epochs": int}
    values = config if isinstance(config, dict) else {}
    wrong = [name for name, kind in kinds.items() if not isinstance(values.get(name), kind)]
    if wrong:
        raise ValueError(f"{path} is damaged: {', '.join(wrong)} missing or of another type")
    algorithm(config["algorithm"])


def check_record(path: Path, record: dict[str, Any]) -> None:
    """Refuse a record that lacks what a comparison needs; losses and distances of a diverged run may be null."""
    numbers = ("accuracy", "accuracy_mean", "accuracy_worst", "bytes_per_step", "seconds")
    wrong = [name for name in numbers if not isinstance(record.get(name), int | float)]
    wrong += [name for name in ("train_loss", "consensus_distance", "accuracies") if name not in record]
    if wrong:
        raise ValueError(f"{path}, epoch {record['epoch']} is damaged: {', '.join(wrong)} missing or no number")


def labels(runs: list[Run]) -> list[str]:
    """A name for each run that tells it from the others: graph and algorithm, n where it differs, then the folder."""
    names = [run.label for run in runs]
    if len({run.config["n"] for run in runs}) > 1:
        names = [f"{name}, n={run.config['n']}" for name, run in zip(names, runs, strict=True)]
    return [f"{name} [{run.folder}]" if names.count(name) > 1 else name for name, run in zip(names, runs, strict=True)]


def size_text(count: float) -> str:
    """Bytes with a decimal prefix, three digits.

    Example:
        >>> size_text(295680)
        '296 kB'
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 999.5 or unit == "TB":
            return f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError("unreachable")


def per_epoch(run: Run) -> float:
    """Median seconds of an epoch, the first left out where there are several: it warms caches up."""
    return statistics.median(record["seconds"] for record in run.records[1:] or run.records)


def table(runs: list[Run]) -> Table:
    """One line for each run: accuracies in percent, bytes sent, seconds."""
    centralized = any(algorithm(run.config["algorithm"]).centralized for run in runs)
    note = "sent: counted for gossip; for allreduce the least that any allreduce sends" if centralized else None
    made = Table(box=box.SIMPLE_HEAD, caption=note, caption_justify="left")
    made.add_column("algorithm, graph", no_wrap=True)
    for name in ("n", "epochs", "averaged %", "mean replica %", "worst replica %", "sent/step/rank", "s/epoch"):
        made.add_column(name, justify="right", no_wrap=True)
    for name, run in zip(labels(runs), runs, strict=True):
        last = run.last
        accuracies = (last["accuracy"], last["accuracy_mean"], last["accuracy_worst"])
        made.add_row(
            Text(name),  # a folder in brackets is no markup
            str(run.config["n"]),
            f"{last['epoch']}/{run.config['epochs']}",
            *(f"{100 * value:.2f}" for value in accuracies),
            size_text(last["bytes_per_step"]),
            f"{per_epoch(run):.2f}",
        )
    return made
