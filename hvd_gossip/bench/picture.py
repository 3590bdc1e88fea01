"""Times of all candidates in one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hvd_gossip import pictures
from hvd_gossip.bench.measure import Result
from hvd_gossip.pictures import counted


def draw(results: list[Result], n: int, path: Path) -> Path:
    """Ratios against size, and bars for what has no size, with quartiles."""
    sized = sorted((r for r in results if r.bytes is not None and "'" not in r.title), key=lambda r: r.bytes or 0)
    others = [r for r in results if r not in sized]
    panels = bool(sized) + len(others)
    figure = pictures.new_figure(path, 7.5 * panels, 5.5)
    axes = iter(figure.subplots(1, panels, squeeze=False)[0])
    if sized:
        curves(next(axes), sized)
    for result in others:
        bars(next(axes), result)
    figure.suptitle(f"{counted(n, 'rank')}: medians, in bars with quartiles")
    return pictures.save(figure, path)


def curves(axes: Any, results: list[Result]) -> None:
    """One curve for each candidate over the sizes."""
    for index, name in enumerate(timing.name for timing in results[0].timings):
        found = [(r, next(t for t in r.timings if t.name == name)) for r in results]
        ratios = [timing.ratio(r.base) for r, timing in found]
        axes.plot(
            [r.bytes for r, _ in found], ratios, label=name, marker=pictures.MARKERS[index % 7], **pictures.style(index)
        )
    axes.set(xscale="log", yscale="log", xlabel="bytes", ylabel=f"time / {results[0].base.name}")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=7, bbox_to_anchor=(0.5, -0.12), loc="upper center", ncols=2)


def bars(axes: Any, result: Result) -> None:
    """One bar for each candidate."""
    base = result.base
    names = [timing.name for timing in result.timings]
    ratios = [timing.ratio(base) for timing in result.timings]
    spans = [timing.quartiles() for timing in result.timings]
    middles = [timing.median for timing in result.timings]
    below = [r * (1 - low / m) for r, (low, _), m in zip(ratios, spans, middles, strict=True)]
    above = [r * (high / m - 1) for r, (_, high), m in zip(ratios, spans, middles, strict=True)]
    axes.barh(names, ratios, xerr=[below, above], color=pictures.COLORS[0], ecolor="0.4")
    for place, (ratio, more, middle) in enumerate(zip(ratios, above, middles, strict=True)):
        axes.text(ratio + more, place, f"  {1e3 * middle:.3g} ms", va="center", fontsize=7)
    axes.invert_yaxis()
    axes.set(title=result.title, xlabel=f"time / {base.name}")
    axes.margins(x=0.2)
