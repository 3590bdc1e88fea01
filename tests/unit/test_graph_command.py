"""hvd-gossip graph and plan, in this process: tables, JSON, pictures, and what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hvd_gossip import cli
from hvd_gossip.comm.launcher import LOCAL_RANK, RANK, SIZE
from hvd_gossip.graphs import GRAPHS, schedule

KEYS = [
    *("graph", "n", "edges", "degree_in", "degree_out", "symmetric", "doubly_stochastic", "gap", "period"),
    *("bytes_per_step", "messages_per_step"),
]


@pytest.fixture(autouse=True)
def not_launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in (*SIZE, *RANK, *LOCAL_RANK):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    yield


def shown(capsys: pytest.CaptureFixture, *argv: str) -> tuple[str, str]:
    """Standard output and standard error of a command."""
    cli.main(argv)
    out = capsys.readouterr()
    return out.out, out.err


def described(capsys: pytest.CaptureFixture, *argv: str) -> list[dict[str, Any]]:
    """The JSON objects of a command."""
    return [json.loads(line) for line in shown(capsys, "graph", *argv, "--json")[0].splitlines()]


def refused(capsys: pytest.CaptureFixture, *argv: str) -> str:
    """What a command says that ends with status 2."""
    with pytest.raises(SystemExit) as caught:
        cli.main(argv)
    assert caught.value.code == 2
    return capsys.readouterr().err


def test_json_is_one_object_for_each_graph(capsys: pytest.CaptureFixture) -> None:
    ring, torus = described(capsys, "ring", "torus", "-n", "12")
    assert [ring["graph"], torus["graph"]] == ["ring", "torus"]
    for found in (ring, torus):
        assert set(KEYS) <= found.keys()
    assert {key: ring[key] for key in KEYS if key != "gap"} == {
        "graph": "ring",
        "n": 12,
        "edges": 24,
        "degree_in": 2,
        "degree_out": 2,
        "symmetric": True,
        "doubly_stochastic": True,
        "period": 1,
        "bytes_per_step": 2 * 4 * 25.6e6,
        "messages_per_step": 2,
    }
    assert ring["gap"] == pytest.approx(0.08932, abs=5e-6)
    assert torus["gap"] == pytest.approx(0.4)


def test_a_schedule_is_looked_at_over_its_period_and_a_round_alone(capsys: pytest.CaptureFixture) -> None:
    (whole,) = described(capsys, "one_peer_exponential", "-n", "16")
    assert (whole["gap"], whole["period"], whole["rounds"], whole["rounds_simulated"]) == (1.0, 4, 4, 4)
    (alone,) = described(capsys, "one_peer_exponential", "-n", "16", "--round", "1")
    assert alone["gap"] == pytest.approx(0.0, abs=1e-12)
    assert alone["rounds"] is None


def test_a_random_schedule_tells_its_second_moment(capsys: pytest.CaptureFixture) -> None:
    (found,) = described(capsys, "random_ring", "-n", "16", "--seed", "5")
    assert found["graph"] == "random_ring:seed=5"
    assert found["second_moment_gap"] == pytest.approx(0.7111, abs=5e-5)
    assert found["second_moment_error"] == 0
    assert found["gap"] == pytest.approx(1 - np.sqrt(1 - found["second_moment_gap"]))
    assert found["period"] is None


def test_the_epoch_chooses_the_graph_of_ada(capsys: pytest.CaptureFixture) -> None:
    degrees = [
        described(capsys, "ada:k0=10,gamma=0.02", "-n", "96", "--epoch", epoch)[0]["degree_in"]
        for epoch in ("0", "50", "1000")
    ]
    assert degrees == [10, 8, 2]


def test_weights_that_lose_the_mean_are_shown_and_warned_of(capsys: pytest.CaptureFixture) -> None:
    out, err = shown(capsys, "graph", "star", "-n", "5", "--weights", "uniform")
    assert "NO" in out
    assert "replicas do not drift to their even mean but to one in which replica 0 counts 0.385" in err
    (found,) = described(capsys, "star:weights=uniform", "-n", "5")
    assert found["doubly_stochastic"] is False
    assert found["heaviest"] == pytest.approx(5 / 13)
    assert found["lightest"] == pytest.approx(2 / 13)


def test_a_file_of_edges_is_a_graph(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    (tmp_path / "path.edges").write_text("0 1\n1 2\n")
    (found,) = described(capsys, "file:path.edges", "-n", "3", "--weights", "max_degree")
    assert found["gap"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("graph", ["ring", "exponential", "base_k:k=2"])
def test_one_graph_is_drawn(capsys: pytest.CaptureFixture, tmp_path: Path, graph: str) -> None:
    shown(capsys, "graph", graph, "-n", "12", "--plot", "new/one.png")
    assert (tmp_path / "new/one.png").read_bytes().startswith(b"\x89PNG")


def test_several_graphs_are_drawn_together(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    out, _ = shown(capsys, "graph", "ring", "base_k", "random_ring", "-n", "12", "--plot", "several.png")
    assert "picture: several.png" in out
    assert (tmp_path / "several.png").read_bytes().startswith(b"\x89PNG")


def test_plan_prints_a_table_and_a_picture(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    out, _ = shown(
        capsys,
        *("plan", "-n", "24", "--parameters", "25.6e6", "--ranks-per-node", "6"),
        *("--link", "between:bandwidth=25e9", "--link", "inside:bandwidth=50e9", "--plot", "plan.png"),
    )
    for text in ("allreduce (ring)", "alternating:groups=4", "exact after one round", "left out: graph 'hypercube'"):
        assert text in out
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("n", [1, 2, 500, 1000])
def test_pictures_of_few_and_of_many_replicas(tmp_path: Path, n: int) -> None:
    assert schedule("ring", n)(0).draw(tmp_path / "ring.png") == tmp_path / "ring.png"
    assert (tmp_path / "ring.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("argv", "texts"),
    [
        (["graph", "rign", "-n", "8"], ["unknown graph 'rign'", "did you mean 'ring'?", *GRAPHS]),
        (["graph", "ring"], ["how many replicas?", "-n 96"]),
        (["plan"], ["how many replicas?", "-n 96"]),
        (["graph", "ring", "-n", "0"], ["got -n 0: expected 1 to 10,000,000 replicas"]),
        (["graph", "-n", "8"], ["graphs"]),
        (["graph", "torus", "-n", "7"], ["7 replicas make no torus", "6 or 8 replicas", "shape=1x7"]),
        (["graph", "ring_lattice", "-n", "8"], ["needs the option k: give ring_lattice:k=…"]),
        (["graph", "ring_lattice:k=8", "-n", "8"], ["got k = 8 for 8 replicas, expected less than n"]),
        (["graph", "ring_lattice:k=3", "-n", "8"], ["got k = 3", "give 2 or 4"]),
        (["graph", "ring", "-n", "8", "--weights", "unform"], ["did you mean 'uniform'?"]),
        (["graph", "exponential", "-n", "8", "--weights", "metropolis"], ["is directed: replica 0 hears"]),
        (["graph", "file:nowhere.edges", "-n", "8"], ["the file cannot be read"]),
        (["graph", "ring", "-n", "8", "--epsilon", "2"], ["got epsilon = 2.0"]),
        (["graph", "ring", "-n", "8", "--plot", "ring.pdf"], ["expected a name that ends in .png"]),
        (["graph", "ring", "-n", "8", "--round", "-1"], ['"round"']),
        (["plan", "-n", "8", "--link", "network:latency=1"], ["unknown link 'network'"]),
        (["plan", "hypercube", "-n", "6"], ["expected a power of two: 4 or 8"]),
        (["graph", "ring", "-n", "100000000000000000000"], ["expected 1 to 10,000,000 replicas"]),
        (["graph", "alternating", "-n", "100000"], ["graph 'alternating", "at most 20,000,000 are looked at"]),
        (["graph", "erdos_renyi", "-n", "100000"], ["at most 20,000,000 are looked at"]),
        (["plan", "base_k:k=99999", "-n", "100000"], ["graph 'base_k:k=99999", "at most 20,000,000 are looked at"]),
        (["graph", "ring", "torus", "-n", "1", "--plot", "one.png"], ["a replica alone has nobody to agree with"]),
        (["plan", "-n", "1", "--plot", "one.png"], ["there is no picture to draw"]),
        (["graph", "ring", "-n", "8", "--plot", "."], ["expected a name that ends in .png"]),
        (["plan", "-n", "8", "--link", "between"], ["expected between:latency=…"]),
        (["plan", "-n", "8", "--link", "inside:latency=1", "--link", "inside:overhead=1"], ["'inside' twice"]),
        (["plan", "-n", "8", "--parameters", "inf"], ["got parameters = inf"]),
        (["graph", "ring", "-n", "8", "--wire-bytes", "inf"], ["got wire_bytes = inf"]),
        (["graph", "file:/dev/zero", "-n", "8"], ["/dev/zero is no regular file"]),
        (["graph", "torus:shape=2x4,dimensions=2", "-n", "8"], ["a shape tells the dimensions"]),
        (["graph", "random_ring:weights=fastest", "-n", "8"], ["solve a program in every round"]),
    ],
)
def test_mistakes_are_told_with_status_2(capsys: pytest.CaptureFixture, argv: list[str], texts: list[str]) -> None:
    told = refused(capsys, *argv)
    for text in texts:
        assert text in told


def test_a_mistake_names_the_graph_once(capsys: pytest.CaptureFixture) -> None:
    assert refused(capsys, "graph", "hypercube", "-n", "6").count("hypercube'") == 1


def test_a_plan_as_json_holds_what_the_table_tells(capsys: pytest.CaptureFixture) -> None:
    out, _ = shown(capsys, "plan", "-n", "8", "ring", "star", "star:weights=uniform", "--json")
    found = json.loads(out)
    assert (found["n"], found["epsilon"], found["left_out"]) == (8, 1e-3, {})
    seconds = [one["seconds"] for one in found["choices"]]
    assert seconds == sorted(seconds)
    assert all(one["seconds"] == pytest.approx(one["rounds"] * one["seconds_per_step"]) for one in found["choices"])
    drifting = [one["graph"] for one in found["choices"] if "does not keep the mean" in one["why"]]
    assert drifting == ["star:weights=uniform"]


def test_what_is_not_known_after_many_rounds_is_not_called_never(capsys: pytest.CaptureFixture) -> None:
    out, _ = shown(capsys, "graph", "ada:k0=20,gamma=1,by=round", "-n", "96")
    assert "> 1,000" in out
    assert "never" not in out


def test_a_pipe_is_no_file_of_edges(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "pipe is no regular file" in refused(capsys, "graph", f"file:{tmp_path / 'pipe'}", "-n", "4")
