"""The picture of runs side by side: accuracy, loss and consensus distance against the epoch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hvd_gossip.dbench import compare
from hvd_gossip.dbench.compare import Run
from hvd_gossip.pictures import MARKERS, new_figure, save, style

Panel = tuple[str, Callable[[dict[str, Any]], float | None], bool]
PANELS: tuple[Panel, ...] = (
    (
        "test accuracy of the averaged model (%)\nband: worst to best replica",
        lambda record: 100 * record["accuracy"],
        False,
    ),
    ("training loss\nmean of the replicas", lambda record: record["train_loss"], True),
    ("consensus distance\nof the replicas", lambda record: record["consensus_distance"] or None, True),
)


def draw(runs: list[Run], path: Path) -> Path:
    """Write the picture as PNG.

    Raises:
        ValueError: matplotlib is not installed, or the file cannot be a PNG or not be written.
    """
    figure = new_figure(path, 14, 4.4)
    axes = figure.subplots(1, len(PANELS))
    names = compare.labels(runs)
    for axis, (title, value, logarithmic) in zip(axes, PANELS, strict=True):
        drawn = [draw_curve(axis, run, name, value, i) for i, (run, name) in enumerate(zip(runs, names, strict=True))]
        axis.set(title=title, xlabel="epoch", yscale="log" if logarithmic and any(drawn) else "linear")
        axis.set_xlim(0.5, max(len(run.records) for run in runs) + 0.5)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
    if equal := [name for run, name in zip(runs, names, strict=True) if always_equal(run)]:
        text = "0, not shown:\n" + "\n".join(equal)
        axes[-1].text(0.03, 0.03, text, transform=axes[-1].transAxes, color="0.4", fontsize=9)
    columns = max(1, min(4, len(runs), 200 // max(map(len, names))))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns, frameon=False)
    figure.suptitle(title_of(runs), fontweight="bold")
    return save(figure, path)


def title_of(runs: list[Run]) -> str:
    """The tasks and numbers of replicas that occur."""
    found = {key: sorted({run.config[key] for run in runs}) for key in ("task", "n")}
    tasks, sizes = (", ".join(map(str, values)) for values in found.values())
    return f"{tasks}: {sizes} replica{'s' * (found['n'] != [1])}"


def always_equal(run: Run) -> bool:
    """Whether the replicas never differed."""
    return all(record["consensus_distance"] == 0 for record in run.records)


def draw_curve(axis: Any, run: Run, name: str, value: Callable[[dict[str, Any]], float | None], index: int) -> bool:
    """One run in one panel, with a band from worst to best replica under the accuracy; whether any is above 0."""
    look = style(index)
    epochs = [record["epoch"] for record in run.records]
    found = [value(record) for record in run.records]
    values = [float("nan") if number is None else number for number in found]
    marker = MARKERS[index % len(MARKERS)]
    axis.plot(epochs, values, **look, marker=marker, markersize=4, linewidth=1.8, label=name)
    if value is PANELS[0][1]:
        low = [100 * min(record["accuracies"]) for record in run.records]
        high = [100 * max(record["accuracies"]) for record in run.records]
        axis.fill_between(epochs, low, high, color=look["color"], alpha=0.15, linewidth=0)
    return any(number > 0 for number in values)
