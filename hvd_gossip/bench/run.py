"""The command `bench`: what is measured, the table, JSON and picture."""

from __future__ import annotations

import dataclasses
import json
import platform
import sys
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from hvd_gossip import __version__, torch as hvd
from hvd_gossip.bench import candidates, steps
from hvd_gossip.bench.config import BenchConfig, check
from hvd_gossip.bench.measure import LEAST_SECONDS, Result, Timing, measure
from hvd_gossip.comm import mpi as MPI, world
from hvd_gossip.comm.world import World
from hvd_gossip.train.log import console


def run(config: BenchConfig) -> list[Result]:
    """Measure on all ranks; rank 0 prints, and writes what was asked for."""
    hvd.init()
    here = world.current()
    torch.set_num_threads(1)
    wanted = here.together(lambda: check(config, here.size))
    # Ranks leave a barrier up to a few latencies apart, which must not count.
    least = max(LEAST_SECONDS, 20 * config.latency)
    results = []
    for title, shapes in wanted:
        made = list(candidates.exchanges(here, shapes, config.graphs, config.paths, config.wires))
        bytes_ = 4 * sum(shape.numel() for shape in shapes)
        results.append(Result(title, bytes_, measure(here, made, config.seconds, least)))
        for candidate in made:
            candidate.free()
        report(here, config, results[-1])
    if config.step:
        made = list(steps.steps(here, config.step, config.batch, config.graphs))
        title = f"training step of {config.step}, batch {config.batch}"
        results.append(Result(title, None, measure(here, made, config.seconds, least)))
        report(here, config, results[-1])
    if here.rank == 0:
        write(config, here, results)
    return results


def report(here: World, config: BenchConfig, result: Result) -> None:
    """Rank 0 shows a table as soon as a size is done."""
    if here.rank == 0:
        console().print(table(config, result, here.size))


def theory(config: BenchConfig, timing: Timing) -> float | None:
    """Seconds on the link, one neighbour after the other: `bytes / bandwidth + neighbours · latency`."""
    if not config.bandwidth or not timing.bytes or not timing.messages or timing.neighbors is None:
        return None
    # Pieces of a vector follow each other at once and wait for the latency together.
    return timing.bytes / config.bandwidth + timing.neighbors * config.latency


def table(config: BenchConfig, result: Result, n: int) -> Table:
    """Medians, quartiles and ratios."""
    made = Table(title=f"{result.title}, {n} ranks, {len(result.timings[0].seconds)} turns", title_justify="left")
    made.add_column("")
    for name in ("ms", "quartiles", f"/ {result.base.name}", "/ theory" if config.bandwidth else ""):
        made.add_column(name, justify="right", no_wrap=True)
    for timing in result.timings:
        expected = theory(config, timing)
        low, high = timing.quartiles()
        made.add_row(
            timing.name,
            f"{1e3 * timing.median:.4g}",
            f"{1e3 * low:.4g} – {1e3 * high:.4g}",
            f"{timing.ratio(result.base):.3f}",
            f"{timing.median / expected:.2f}" if expected else "",
        )
    return made


def write(config: BenchConfig, here: World, results: list[Result]) -> None:
    """JSON and picture, where they were asked for."""
    if config.json:
        Path(config.json).write_text(json.dumps(as_dict(config, here, results), indent=1) + "\n")
        sys.stdout.write(f"times: {config.json}\n")
    if config.plot:
        from hvd_gossip.bench import picture

        sys.stdout.write(f"picture: {picture.draw(results, here.size, Path(config.plot))}\n")


def as_dict(config: BenchConfig, here: World, results: list[Result]) -> dict[str, Any]:
    """Everything that was measured, and on what."""
    return {
        "hvd_gossip": __version__,
        "torch": torch.__version__,
        "mpi": MPI.Get_library_version().splitlines()[0].strip(),
        "machine": f"{platform.system()} {platform.machine()}",
        "ranks": here.size,
        "ranks_per_node": here.local_size,
        "config": dataclasses.asdict(config),
        "results": [
            {
                "title": result.title,
                "bytes": result.bytes,
                "base": result.base.name,
                "candidates": [
                    {
                        "name": timing.name,
                        "median_seconds": timing.median,
                        "ratio": timing.ratio(result.base),
                        "sent_bytes": timing.bytes,
                        "sent_messages": timing.messages,
                        "seconds": timing.seconds,
                    }
                    for timing in result.timings
                ],
            }
            for result in results
        ],
    }
