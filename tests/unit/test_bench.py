"""What a measurement makes of its times: sizes, medians, ratios, theory, picture."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hvd_gossip.bench import picture, run, sizes
from hvd_gossip.bench.config import BenchConfig, check
from hvd_gossip.bench.measure import Result, Timing


@pytest.mark.parametrize(
    ("text", "count"), [("4", 1), ("4KB", 1000), ("1 MB", 250_000), ("1MiB", 262_144), ("2.5e3kb", 625_000)]
)
def test_sizes_are_bytes_of_single_precision(text: str, count: int) -> None:
    assert sizes.parse(text) == count


@pytest.mark.parametrize("text", ["", "3", "-4KB", "4TBs", "KB", "1..2MB", "nan"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected bytes, at least 4"):
        sizes.parse(text)


def test_resnet50_has_the_shapes_of_the_paper() -> None:
    shapes = sizes.resnet50_shapes()
    assert len(shapes) == 161
    assert sum(shape.numel() for shape in shapes) == 25_557_032
    assert sum(len(shape) == 4 for shape in shapes) == 53


def test_ratios_are_taken_turn_by_turn() -> None:
    """A machine that slows down for all alike changes no ratio."""
    base = Timing("MPI allreduce", [1.0, 10.0, 2.0])
    assert Timing("gossip", [0.5, 5.0, 1.0]).ratio(base) == 0.5
    assert base.median == 2.0
    assert Timing("gossip", [1.0, 2.0, 3.0, 4.0, 5.0]).quartiles() == (2.0, 4.0)
    assert Timing("gossip", [1.0]).quartiles() == (1.0, 1.0)


def results() -> list[Result]:
    def timings(factor: float) -> list[Timing]:
        return [
            Timing("memory copy", [0.1 * factor] * 5),
            Timing("Horovod allreduce", [1.0 * factor] * 5),
            Timing("gossip ring, messages", [0.4 * factor] * 5, bytes=2e6 * factor, messages=34, neighbors=2),
        ]

    return [
        Result("1 MB", 1_000_000, timings(1)),
        Result("10 MB", 10_000_000, timings(10)),
        Result("step", None, timings(3)),
    ]


def test_the_base_is_horovod_where_it_is_there() -> None:
    assert results()[0].base.name == "Horovod allreduce"
    assert Result("", 1, [Timing("no communication", [1.0]), Timing("gossip", [1.0])]).base.name == "no communication"


def test_theory_counts_bytes_and_neighbours() -> None:
    config, result = BenchConfig(bandwidth=1e7, latency=0.005), results()[0]
    assert run.theory(config, result.timings[2]) == pytest.approx(2e6 / 1e7 + 2 * 0.005)
    assert run.theory(config, result.timings[0]) is None
    assert run.theory(BenchConfig(), result.timings[2]) is None


def test_the_table_tells_milliseconds_and_ratios() -> None:
    made = run.table(BenchConfig(), results()[0], 4)
    assert "1 MB, 4 ranks, 5 turns" in str(made.title)
    cells = [list(column.cells) for column in made.columns]
    assert cells[1] == ["100", "1000", "400"]
    assert cells[3] == ["0.100", "1.000", "0.400"]


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    assert picture.draw(results(), 4, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert picture.draw(results()[2:], 4, tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_measured_is_named() -> None:
    found = check(BenchConfig(sizes=["4KB"], shapes=["resnet50"]), 4)
    assert [title for title, _ in found] == ["4 KB", "resnet50's parameters"]
    assert found[0][1] == [torch.Size([1000])]
