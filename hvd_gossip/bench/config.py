"""What a measurement is told; every value has its help, unit and default."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch
from jsonargparse.typing import NonNegativeFloat, PositiveFloat, PositiveInt

from hvd_gossip import pictures, specification
from hvd_gossip.bench import sizes
from hvd_gossip.graphs import schedule
from hvd_gossip.mixing import WIRES
from hvd_gossip.models import MODELS

PATHS = ("shared", "messages")
"""How parameters reach neighbours of the same node."""


@dataclass
class BenchConfig:
    """Exchanges and training steps measured beside Horovod, MPI and the least that each could take."""

    sizes: list[str] = field(default_factory=lambda: ["4KB", "64KB", "1MB", "10MB", "100MB"])
    """Buffers of float32 values, in bytes; none with []."""
    shapes: list[str] = field(default_factory=list)
    """Networks whose real list of parameter shapes is exchanged besides: resnet50."""
    graphs: list[str] = field(default_factory=lambda: ["ring", "random_ring", "one_peer_exponential"])
    """Graphs of the gossip."""
    paths: list[str] = field(default_factory=lambda: list(PATHS))
    """How parameters reach neighbours of the same node: shared, messages."""
    wires: list[str] = field(default_factory=lambda: ["none"])
    """What numbers are rounded to on their way: none, bf16, fp16."""
    step: str | None = None
    """A model whose whole training step is measured besides, on random images: cnn or resnet20."""
    batch: PositiveInt = 32
    """Samples of that step."""
    seconds: PositiveFloat = 10.0
    """Time for each size, at least; five turns are always taken."""
    latency: NonNegativeFloat = 0.0
    """Seconds that a message takes on this machine's link, for a comparison with theory."""
    bandwidth: NonNegativeFloat = 0.0
    """Bytes per second of the link in each direction, for a comparison with theory (default: none)."""
    json: str | None = None
    """JSON file for all times."""
    plot: str | None = None
    """PNG file."""


def check(config: BenchConfig, n: int) -> list[tuple[str, list[torch.Size]]]:
    """Refuse what cannot be measured; returns titles and shapes of what is exchanged."""
    for what, values, known in (
        ("path", config.paths, PATHS),
        ("wire", config.wires, WIRES),
        ("shapes", config.shapes, sizes.SHAPES),
        ("model", [config.step] if config.step else [], MODELS),
    ):
        for value in values:
            specification.choose(what, value, known)
    for graph in config.graphs:
        schedule(graph, n)
    if config.plot:
        pictures.require(Path(config.plot))
    counts = [sizes.parse(text) for text in config.sizes]
    return [(sizes.name(count), [torch.Size([count])]) for count in counts] + [
        (f"{name}'s parameters", sizes.SHAPES[name]()) for name in config.shapes
    ]
