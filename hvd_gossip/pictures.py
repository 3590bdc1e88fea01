"""Colours, and how pictures are made and written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, told apart by colour-blind readers too."""
MARKERS = "osD^vPX"
LINES = ("-", "--", ":", "-.")


def style(index: int) -> dict[str, str]:
    """Colour and line of the curve with this number."""
    return {"color": COLORS[index % len(COLORS)], "linestyle": LINES[index // len(COLORS) % len(LINES)]}


def require(path: Path) -> None:
    """Refuse a picture that could not be written, before the work for it begins.

    Raises:
        ValueError: matplotlib is not installed, the name does not end in .png, or the folder is not to be had.
    """
    new_figure(path, 1, 1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
            raise OSError("it may not be written")
    except OSError as error:
        raise ValueError(f"the picture cannot be written to {path}: {error}") from error


def counted(n: int, what: str = "replica") -> str:
    """A number of things, in words.

    Example:
        >>> counted(1), counted(1008)
        ('1 replica', '1,008 replicas')
    """
    return f"{n:,} {what}{'s' * (n != 1)}"


def new_figure(path: Path, width: float, height: float) -> Figure:
    """An empty figure for a PNG file, inches wide and high.

    Raises:
        ValueError: matplotlib is not installed, or the file's name does not end in .png.
    """
    if path.suffix.lower() != ".png":
        raise ValueError(f"got {path} for the picture: expected a name that ends in .png")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError("the picture needs matplotlib: pip install 'hvd_gossip[plots]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: Path) -> Path:
    """Write the figure; the folder is made where it is missing.

    Raises:
        ValueError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120, format="png", bbox_inches="tight", pad_inches=0.15)
    except OSError as error:
        raise ValueError(f"the picture cannot be written to {path}: {error}") from error
    return path
