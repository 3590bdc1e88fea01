"""The picture of runs side by side: accuracy, loss and consensus distance against the epoch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hvd_gossip.dbench.compare import Run

COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, told apart by colour-blind readers too."""
MARKERS = "osD^vPX"

Panel = tuple[str, Callable[[dict[str, Any]], float | None], bool]
PANELS: tuple[Panel, ...] = (
    ("test accuracy of the averaged model (%)", lambda record: 100 * record["accuracy"], False),
    ("training loss, mean of the replicas", lambda record: record["train_loss"], True),
    ("consensus distance", lambda record: record["consensus_distance"] or None, True),
)


def draw(runs: list[Run], path: Path) -> Path:
    """Write the picture as PNG.

    Raises:
        ValueError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError("the picture needs matplotlib: pip install 'hvd_gossip[plots]'") from error
    figure = Figure(figsize=(14, 4.4), layout="constrained")
    axes = figure.subplots(1, len(PANELS))
    for axis, (title, value, logarithmic) in zip(axes, PANELS, strict=True):
        for index, run in enumerate(runs):
            draw_curve(axis, run, value, index)
        axis.set(title=title, xlabel="epoch", yscale="log" if logarithmic else "linear")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
    axes[-1].text(0.03, 0.03, "allreduce: 0, not shown", transform=axes[-1].transAxes, color="0.4", fontsize=9) if any(
        not any(record["consensus_distance"] for record in run.records) for run in runs
    ) else None
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(runs)), frameon=False)
    first = runs[0].config
    figure.suptitle(f"{first['task']}, {first['n']} replicas", fontweight="bold")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, format="png")
    return path


def draw_curve(axis: Any, run: Run, value: Callable[[dict[str, Any]], float | None], index: int) -> None:
    """One run in one panel, with a band from the worst to the best replica under the accuracy."""
    color, epochs = COLORS[index % len(COLORS)], [record["epoch"] for record in run.records]
    values = [float("nan") if value(record) is None else value(record) for record in run.records]
    marker = MARKERS[index % len(MARKERS)]
    axis.plot(epochs, values, color=color, marker=marker, markersize=4, linewidth=1.8, label=run.label)
    if value is PANELS[0][1]:
        low = [100 * min(record["accuracies"]) for record in run.records]
        high = [100 * max(record["accuracies"]) for record in run.records]
        axis.fill_between(epochs, low, high, color=color, alpha=0.15, linewidth=0)
