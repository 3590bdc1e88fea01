"""Runs side by side: their last epochs as a table."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich import box
from rich.table import Table

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
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not isinstance(config, dict) or not {"n", "task", "graph", "algorithm", "allreduce", "epochs"} <= config.keys():
        raise ValueError(f"{path} is damaged: values are missing")
    return Run(folder, config, records)


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
    made = Table(box=box.SIMPLE_HEAD)
    made.add_column("algorithm, graph", no_wrap=True)
    for name in ("n", "epochs", "averaged %", "mean replica %", "worst replica %", "sent/step/rank", "s/epoch"):
        made.add_column(name, justify="right", no_wrap=True)
    for run in runs:
        last = run.last
        accuracies = (last["accuracy"], last["accuracy_mean"], last["accuracy_worst"])
        made.add_row(
            run.label,
            str(run.config["n"]),
            f"{last['epoch']}/{run.config['epochs']}",
            *(f"{100 * value:.2f}" for value in accuracies),
            size_text(last["bytes_per_step"]),
            f"{per_epoch(run):.2f}",
        )
    return made
