"""Pictures of graphs: replicas on a circle beside W, and how fast several graphs agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from hvd_gossip.pictures import COLORS, counted, new_figure, save, style

MOST_CIRCLED = 400
"""More replicas are not put on a circle."""
MOST_ARROWS = 600
"""Directed graphs with more edges are drawn without arrow heads."""
NUMBERED = 48
"""Up to so many replicas are numbered."""


class Drawable(Protocol):
    """What is asked of a Topology here."""

    name: str
    n: int

    @property
    def symmetric(self) -> bool: ...
    def matrix(self) -> sp.csr_array: ...
    def degrees(self) -> tuple[np.ndarray, np.ndarray]: ...


def draw_topology(topology: Drawable, path: Path) -> Path:
    """A PNG file with the replicas on a circle, edges by weight, and W as a picture.

    Raises:
        ValueError: matplotlib is not installed, or the file cannot be a PNG or not be written.
    """
    circled = topology.n <= MOST_CIRCLED
    figure = new_figure(path, 12.5 if circled else 7, 6.2)
    axes = figure.subplots(1, 2 if circled else 1, squeeze=False)[0]
    if circled:
        draw_circle(axes[0], topology)
    draw_matrix(figure, axes[-1], topology)
    hears = topology.degrees()[0]
    degree = f"{hears.max()}" if hears.min() == hears.max() else f"{hears.min()} to {hears.max()}"
    matrix = topology.matrix()
    both_ways = topology.symmetric or not ((matrix != 0) != (matrix.T != 0)).nnz
    kind = "symmetric" if topology.symmetric else "W not symmetric" if both_ways else "directed"
    figure.suptitle(f"{topology.name}: {counted(topology.n)}, degree {degree}, {kind}", fontweight="bold")
    return save(figure, path)


def draw_circle(axis: Any, topology: Drawable) -> None:
    """Replicas clockwise from the top; edges of a directed graph are arrows unless there are many."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb

    angle = np.pi / 2 - 2 * np.pi * np.arange(topology.n) / topology.n
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    matrix = topology.matrix().tocoo()
    others = matrix.row != matrix.col
    to, of, weight = matrix.row[others], matrix.col[others], matrix.data[others]
    strength = weight / weight.max(initial=1e-300)
    crowd = np.clip(np.sqrt(150 / max(1, len(to))), 0.15, 1.0)
    colors = np.zeros((len(to), 4))
    colors[:, :3] = to_rgb(COLORS[0])
    colors[:, 3] = np.clip(0.85 * crowd * (0.3 + 0.7 * strength), 0.05, 1.0)
    if topology.symmetric or len(to) > MOST_ARROWS:
        segments: Any = np.stack([points[of], points[to]], axis=1)
        axis.add_collection(LineCollection(segments, colors=colors, linewidths=0.3 + 1.7 * crowd * strength))
    else:
        draw_arrows(axis, points[of], points[to], colors)
    few = topology.n <= NUMBERED
    size, rim = (160 - 2 * topology.n, 0.5) if few else (10, 0)
    axis.scatter(*points.T, s=size, color=COLORS[4], zorder=3, edgecolors="white", linewidths=rim)
    for rank in range(topology.n if few else 0):
        axis.text(*(1.1 * points[rank]), str(rank), ha="center", va="center", fontsize=9 if topology.n <= 24 else 7)
    axis.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), aspect="equal", title="who hears whom")
    axis.axis("off")


def draw_arrows(axis: Any, start: np.ndarray, end: np.ndarray, colors: np.ndarray) -> None:
    """Arrows that end a little before the replica that hears."""
    way = end - start
    way *= 1 - 0.06 / np.linalg.norm(way, axis=1, keepdims=True)
    heads = {"headwidth": 5, "headlength": 7, "headaxislength": 6}
    axis.quiver(*start.T, *way.T, color=colors, angles="xy", scale_units="xy", scale=1, width=0.0028, **heads, zorder=2)


def draw_matrix(figure: Any, axis: Any, topology: Drawable) -> None:
    """W with a colour bar; large ones are averaged down to 400 cells a side so that no weight is lost from sight."""
    step = -(-topology.n // MOST_CIRCLED)
    matrix = topology.matrix().tocoo()
    side = -(-topology.n // step)
    cells = np.zeros((side, side))
    np.maximum.at(cells, (matrix.row // step, matrix.col // step), matrix.data)
    shown = np.ma.masked_equal(cells, 0)
    extent = (-0.5, topology.n - 0.5, topology.n - 0.5, -0.5)
    image = axis.imshow(shown, cmap="viridis_r", vmin=0, extent=extent, interpolation="nearest")
    figure.colorbar(image, ax=axis, shrink=0.85, label="weight" if step == 1 else f"largest weight of {step} x {step}")
    axis.set(title="W: what the row's replica gives to the column's", xlabel="hears replica j", ylabel="replica i")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.yaxis.get_major_locator().set_params(integer=True)


def draw_consensus(curves: dict[str, tuple[np.ndarray, float]], n: int, epsilon: float, path: Path) -> Path:
    """A PNG file with the disagreement of several graphs against rounds and against bytes sent by a rank.

    Args:
        curves: by name: disagreement after each round, and bytes that a rank sends in a round.
        n: number of replicas.
        epsilon: the consensus asked for, drawn as a line.
        path: the file.

    Raises:
        ValueError: matplotlib is not installed, or the file cannot be a PNG or not be written.
    """
    figure = new_figure(path, 13, 5.4)
    axes = figure.subplots(1, 2, sharey=True)
    for index, (name, (errors, size)) in enumerate(curves.items()):
        look = style(index)
        shown = np.maximum(errors, epsilon / 10)
        rounds = np.arange(len(errors))
        mark = "o" if len(errors) <= 40 else None
        axes[0].plot(rounds, shown, label=name, linewidth=1.8, marker=mark, markersize=3.5, **look)
        axes[1].plot(rounds * size / 1e6, shown, linewidth=1.8, marker=mark, markersize=3.5, **look)
    longest = [len(errors) - 1 for errors, _ in curves.values()]
    sizes = [(len(errors) - 1) * size / 1e6 for errors, size in curves.values()]
    for axis, label, ends in ((axes[0], "rounds", longest), (axes[1], "MB sent by a rank", sizes)):
        shortest = min(filter(None, ends), default=1.0)
        if max(ends) > 20 * shortest:
            axis.set_xscale("symlog", linthresh=shortest)
        axis.axhline(epsilon, color="0.5", linewidth=1, linestyle=":")
        axis.set(yscale="log", xlabel=label, xlim=(0, max([*ends, 1e-9]) * 1.02))
        axis.grid(alpha=0.3)
    axes[0].set(ylabel="disagreement of the replicas,\nrelative to the start", ylim=(epsilon / 14, 1.5))
    figure.legend(loc="outside lower center", ncols=min(4, len(curves)), frameon=False)
    figure.suptitle(f"how fast {counted(n)} agree", fontweight="bold")
    return save(figure, path)


def draw_plan(points: dict[str, tuple[float, float]], n: int, epsilon: float, path: Path) -> Path:
    """A PNG file with the time to consensus of several graphs, made of rounds and the time of a round.

    Args:
        points: rounds to consensus and seconds of a round by name, best first.
        n: number of replicas.
        epsilon: the consensus asked for.
        path: the file.

    Raises:
        ValueError: matplotlib is not installed, or the file cannot be a PNG or not be written.
    """
    figure = new_figure(path, 12, 1.6 + 0.32 * len(points))
    axes = figure.subplots(1, 3, sharey=True)
    names = list(points)
    rounds, steps = np.array(list(points.values())).T
    times = ("ms to consensus", 1e3 * rounds * steps)
    panels = (times, ("rounds to consensus", rounds), ("ms for a step", 1e3 * steps))
    for axis, (title, values), color in zip(axes, panels, COLORS, strict=False):
        axis.barh(names, values, color=color, height=0.7)
        axis.set(title=title, xscale="log", xlim=(values.min() / 2, values.max() * 30))
        for place, value in enumerate(values):
            shown = f"{value:,.0f}" if 100 <= value < 1e7 else f"{value:.3g}"
            axis.text(value * 1.1, place, shown, va="center", fontsize=8)
        axis.grid(alpha=0.3, axis="x")
    axes[0].set_ylim(len(names) - 0.4, -0.6)
    figure.suptitle(f"{counted(n)} until {epsilon:g} of their disagreement is left", fontweight="bold")
    return save(figure, path)
