"""Tables and pictures of graphs for the command line."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from hvd_gossip.graphs import Schedule, Topology, registry, schedule
from hvd_gossip.graphs.consensus import FOLLOWED, simulate
from hvd_gossip.graphs.description import Description
from hvd_gossip.graphs.drawing import draw_consensus, draw_plan
from hvd_gossip.graphs.planning import Choice, Plan
from hvd_gossip.pictures import counted
from hvd_gossip.specification import with_option

MOST_ROUNDS = 2_000
"""So many rounds are drawn at most."""


MOST_REPLICAS = 10_000_000
"""Larger graphs are not looked at."""


def require_size(n: int | None) -> None:
    """Refuse to guess the number of replicas, and more of them than can be looked at.

    Raises:
        ValueError: it is missing, below 1 or above 10,000,000.
    """
    if n is None:
        raise ValueError("how many replicas? give their number, for example -n 96")
    if not 1 <= n <= MOST_REPLICAS:
        raise ValueError(f"got -n {n}: expected 1 to {MOST_REPLICAS:,} replicas")


def schedules(texts: list[str], n: int, seed: int, weights: str | None) -> tuple[list[Schedule], list[str]]:
    """The schedules of short forms with a rule for weights, and the warnings they gave, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        forms = texts if weights is None else [with_option(registry.expand(text), weights=weights) for text in texts]
        found = [schedule(form, n, seed) for form in forms]
    return found, list(dict.fromkeys(str(warning.message) for warning in caught))


def as_json(found: Description) -> str:
    """One JSON object; what is not known is null."""
    return json.dumps(dataclasses.asdict(found))


def number(value: float) -> str:
    """Four digits, or all before the point."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def rounds(needed: float, gap: float) -> str:
    """Rounds to consensus; that none is known need not mean that there is none."""
    if math.isfinite(needed):
        return f"{needed:,}"
    return "never" if gap <= 1e-15 else f"> {FOLLOWED:,}"


def table(found: list[Description]) -> Table:
    """One row for each graph."""
    epsilon, parameters = found[0].epsilon, found[0].parameters
    made = Table(
        title=f"n = {found[0].n}; consensus: {epsilon:g} of the disagreement is left; {parameters:,.0f} parameters",
        title_justify="left",
    )
    headings = ("graph", "degree in", "out", "edges", "symmetric", "keeps the mean", "gap", "period")
    for heading in (*headings, "rounds", "simulated", "MB/step", "messages/step"):
        made.add_column(heading, justify="left" if heading == "graph" else "right", overflow="fold")
    for one in found:
        made.add_row(
            one.graph,
            str(one.degree_in),
            str(one.degree_out),
            number(one.edges),
            "yes" if one.symmetric else "no",
            "yes" if one.doubly_stochastic else "NO",
            f"{one.gap:.5f}" if one.gap >= 1e-4 or one.gap == 0 else f"{one.gap:.2e}",
            str(one.period or "-"),
            rounds(math.inf if one.rounds is None else one.rounds, one.gap),
            "-" if one.rounds_simulated is None else f"{one.rounds_simulated:,}",
            number(one.bytes_per_step / 1e6),
            number(one.messages_per_step),
        )
    return made


def picture(found: list[Schedule], descriptions: list[Description], round: int | None, epoch: int, path: Path) -> Path:
    """One graph on a circle and as a matrix; of several, how fast they agree.

    Raises:
        ValueError: matplotlib is not installed, or the file cannot be a PNG or not be written.
    """
    if len(found) == 1:
        topology: Topology = found[0](round or 0, epoch)
        topology.whole()  # too large a graph is refused before it is drawn
        return topology.draw(path)
    if found[0].n == 1:
        raise ValueError("there is no picture to draw: a replica alone has nobody to agree with")
    curves: dict[str, tuple[np.ndarray, float]] = {}
    for one, told in zip(found, descriptions, strict=True):
        curves[told.graph] = (simulate(one, told.epsilon, MOST_ROUNDS, epoch=epoch), told.bytes_per_step)
    return draw_consensus(curves, found[0].n, descriptions[0].epsilon, path)


def plan_json(made: Plan, n: int, epsilon: float) -> str:
    """One JSON object: the choices, best first, and what was left out; what never ends is null."""
    choices = [
        {
            "graph": one.graph,
            "degree": one.degree,
            "gap": one.rate.gap,
            "rounds": one.rounds if math.isfinite(one.rounds) else None,
            "bytes_per_step": one.step.bytes,
            "messages_per_step": one.step.messages,
            "seconds_per_step": one.step.seconds,
            "seconds": one.seconds if math.isfinite(one.seconds) else None,
            "why": one.why,
        }
        for one in made.choices
    ]
    return json.dumps({"n": n, "epsilon": epsilon, "choices": choices, "left_out": made.left_out})


def plan_table(made: Plan, n: int, epsilon: float) -> Table:
    """One row for each choice, best first."""
    shown = Table(title=f"n = {n}; time until {epsilon:g} of the disagreement is left", title_justify="left")
    for heading in ("graph", "degree", "gap", "rounds", "MB/step", "ms/step", "ms to consensus"):
        shown.add_column(heading, justify="left" if heading == "graph" else "right", overflow="fold")
    shown.add_column("why")
    for choice in made.choices:
        shown.add_row(*map(str, plan_row(choice)))
    return shown


def plan_row(choice: Choice) -> tuple[Any, ...]:
    """What the table tells of a choice."""
    endless = not math.isfinite(choice.rounds)
    return (
        choice.graph,
        choice.degree,
        f"{choice.rate.gap:.4f}" if choice.rate.gap >= 1e-3 else f"{choice.rate.gap:.1e}",
        rounds(choice.rounds, choice.rate.gap),
        number(choice.step.bytes / 1e6),
        number(1e3 * choice.step.seconds),
        "-" if endless else number(1e3 * choice.seconds),
        choice.why,
    )


def plan_picture(made: Plan, n: int, epsilon: float, path: Path) -> Path:
    """Time of a step against rounds to consensus; the best lie at the lower left.

    Raises:
        ValueError: matplotlib is not installed, or the file cannot be a PNG or not be written.
    """
    points = {one.graph: (one.rounds, one.step.seconds) for one in made.choices if 0 < one.rounds < math.inf}
    if not points:
        raise ValueError(f"there is no picture to draw: no graph of {counted(n)} needs a round and comes to an end")
    return draw_plan(points, n, epsilon, path)
