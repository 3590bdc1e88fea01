"""The command line, in this process: what is refused with status 2 and why, config files, and help."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import hvd_gossip
from hvd_gossip import cli, torch as hvd
from hvd_gossip.algorithms import ALGORITHMS
from hvd_gossip.comm.allreduce_mixer import ALLREDUCE
from hvd_gossip.comm.launcher import LOCAL_RANK, RANK, SIZE
from hvd_gossip.graphs import GRAPHS
from hvd_gossip.models import MODELS
from hvd_gossip.tasks import TASKS
from hvd_gossip.train.config import TrainConfig, flat, nested


@pytest.fixture(autouse=True)
def not_launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """As started by hand in an empty folder: a launcher around these tests says nothing."""
    for name in (*SIZE, *RANK, *LOCAL_RANK):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    yield
    hvd.shutdown()


def ended(capsys: pytest.CaptureFixture, *argv: str) -> tuple[Any, str, str]:
    """Exit status, standard output and standard error of a command line that ends early."""
    with pytest.raises(SystemExit) as caught:
        cli.main(argv)
    shown = capsys.readouterr()
    return caught.value.code, shown.out, shown.err


@pytest.mark.parametrize(
    ("argv", "texts"),
    [
        ([], ["train", "graph", "plan", "report", "bench", "doctor"]),
        (["trian"], ["'trian'", "train", "report", "bench", "doctor"]),
        (["train", "--grpah", "ring"], ["unrecognized arguments", "--grpah"]),
        (["train", "ring"], ["unrecognized arguments", "ring"]),
        (["train", "--epochs", "many"], ['"epochs"', "many"]),
        (["train", "--epochs", "1.5"], ['"epochs"', "1.5"]),
        (["train", "--epochs", "-1"], ['"epochs"', "-1", "v>0"]),
        (["train", "--epochs", "0"], ['"epochs"', "v>0"]),
        (["train", "--seed", "-1"], ['"seed"', "-1", "v>=0"]),
        (["train", "--rate.base", "-0.1"], ['"rate.base"', "-0.1", "v>0"]),
        (["train", "--rate.base", "nan"], ['"rate.base"', "nan"]),
        (["train", "--data.workers", "-2"], ['"data.workers"', "-2", "v>=0"]),
        (["train", "--data.batch_size", "0"], ['"data.batch_size"', "v>0"]),
        (["train", "--rate.decay", "cosin"], ['"rate.decay"', "cosin", "cosine", "step"]),
        (["train", "--optimizer.nesterov", "perhaps"], ['"optimizer.nesterov"', "perhaps"]),
        (["train", "--config", "nowhere.yaml"], ["nowhere.yaml"]),
        (["train", "--graph", "rign"], ["unknown graph 'rign'", "complete, d_equistatic", "did you mean 'ring'?"]),
        (["train", "--graph", "ring:k=4"], ["unknown option of graph 'ring' 'k': expected one of directed, weights"]),
        (["train", "--task", "digit"], ["unknown task 'digit'", "did you mean 'digits'?"]),
        (["train", "--algorithm", "dpsgd:order=awx"], ["unknown order 'awx'", "did you mean 'awc'?"]),
        (["train", "--task", "cifar10"], ["name the folder with", "--data.folder"]),
        (["report"], ["runs"]),
        (["report", "nowhere"], ["nowhere is no run folder: it has no config.yaml"]),
        (["report", "--plot"], ["plot"]),
    ],
)
def test_a_mistake_ends_with_status_2_and_says_why(
    capsys: pytest.CaptureFixture, argv: list[str], texts: list[str]
) -> None:
    status, out, error = ended(capsys, *argv)
    assert status == 2
    assert out == ""
    assert error.startswith("hvd-gossip: error: ")
    assert error.count("hvd-gossip: error") == 1
    assert [text for text in texts if text not in error] == []
    assert list(Path().iterdir()) == []


def test_only_rank_0_says_why(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_RANK", "1")
    assert ended(capsys, "train", "--epochs", "0") == (2, "", "")


@pytest.mark.parametrize("text", ["graph: [ring", "epochs: many", "rate:\n  bsae: 0.1", "- ring", "epochs: -3"])
def test_a_config_file_that_does_not_fit_is_refused(capsys: pytest.CaptureFixture, text: str) -> None:
    Path("own.yaml").write_text(text)
    status, out, error = ended(capsys, "train", "--config", "own.yaml")
    assert (status, out) == (2, "")
    assert error.startswith("hvd-gossip: error: ")


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[TrainConfig]:
    """The configurations with which training would have begun."""
    from hvd_gossip.train import loop

    configs: list[TrainConfig] = []

    def run(config: TrainConfig) -> Path:
        hvd.init()
        configs.append(config)
        return Path("somewhere")

    monkeypatch.setattr(loop, "run", run)
    return configs


def test_without_flags_the_defaults_hold(trained: list[TrainConfig], capsys: pytest.CaptureFixture) -> None:
    cli.main(["train"])
    assert trained == [TrainConfig()]
    assert capsys.readouterr().out == "run folder: somewhere\n"


def test_flags_win_over_the_config_file_and_the_file_over_defaults(trained: list[TrainConfig]) -> None:
    Path("own.yaml").write_text("graph: ring\nepochs: 5\nrate:\n  base: 0.5\n  decay: step\ndata:\n  batch_size: 8\n")
    cli.main(["train", "--config", "own.yaml", "--epochs", "2", "--rate.base", "0.25", "--run", "here"])
    cli.main(["train", "--config=own.yaml", "--epochs=2", "--rate.base=0.25", "--run=here"])
    assert len(trained) == 2
    expected = {
        "graph": "ring",
        "epochs": 2,
        "rate.base": 0.25,
        "rate.decay": "step",
        "data.batch_size": 8,
        "run": "here",
    }
    for config in trained:
        assert isinstance(config, TrainConfig)
        assert flat(nested(config)) == flat(nested(TrainConfig())) | expected


def test_the_config_that_is_printed_is_the_one_that_is_used(
    trained: list[TrainConfig], capsys: pytest.CaptureFixture
) -> None:
    Path("own.yaml").write_text("graph: ring\nrate:\n  milestones: [0.25, 0.5]\n")
    argv = ["--config", "own.yaml", "--optimizer.name", "adamw", "--rate.base", "1e-5", "--data.dirichlet", "0.1"]
    status, out, _ = ended(capsys, "train", *argv, "--print_config")
    assert status in (0, None)
    assert trained == []
    values = yaml.safe_load(out)
    assert values["rate"]["milestones"] == [0.25, 0.5]
    Path("printed.yaml").write_text(out)
    cli.main(["train", "--config", "printed.yaml"])
    cli.main(["train", *argv])
    assert trained[0] == trained[1]
    assert nested(trained[0]) == values


def sections(text: str) -> dict[str, str]:
    """The part of a help text that belongs to each option, as one line."""
    parts = (" ".join(part.split()) for part in re.split(r"\n +(?=--)|\n\n", text))
    return {part.split()[0].removeprefix("--"): part for part in parts if part.startswith("--")}


def test_help_tells_meaning_and_default_of_every_option(capsys: pytest.CaptureFixture) -> None:
    status, out, _ = ended(capsys, "train", "--help")
    assert status in (0, None)
    found = {name.rstrip(","): text for name, text in sections(out).items()}
    for name, value in flat(nested(TrainConfig())).items():
        meaning = re.sub(r"--\S+|\(type: .*\)|[A-Z_]{4,}", "", found[name]).split()
        assert len(meaning) >= 3, f"{name} is not explained"
        assert f"default: {'null' if value is None else value}" in found[name]


def test_help_names_everything_that_can_be_chosen(capsys: pytest.CaptureFixture) -> None:
    found = sections(ended(capsys, "train", "--help")[1])
    tables: dict[str, Collection[str]] = {
        "algorithm": ALGORITHMS,
        "allreduce": ALLREDUCE,
        "task": TASKS,
        "model": MODELS,
    }
    assert "hvd-gossip graph --help" in found["graph"]
    assert [name for name in GRAPHS if name not in ended(capsys, "graph", "--help")[1]] == []
    assert [(option, name) for option, names in tables.items() for name in names if name not in found[option]] == []


@pytest.mark.parametrize("command", ["train", "graph", "plan", "report", "bench", "doctor"])
def test_every_command_has_help(capsys: pytest.CaptureFixture, command: str) -> None:
    status, out, error = ended(capsys, command, "--help")
    assert status in (0, None)
    assert "usage" in out.lower()
    assert error == ""
    assert command in ended(capsys, "--help")[1]


def test_version(capsys: pytest.CaptureFixture) -> None:
    status, out, _ = ended(capsys, "--version")
    assert status in (0, None)
    assert hvd_gossip.__version__ in out


def test_an_error_in_training_that_ranks_do_not_share_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """It must end the job with its traceback: the other ranks would never come to the common exit."""

    def fail(arguments: Any) -> None:
        raise ValueError("here alone")

    monkeypatch.setitem(cli.COMMANDS, "train", fail)
    monkeypatch.setenv("PMI_SIZE", "4")
    with pytest.raises(ValueError, match="here alone"):
        cli.main(["train"])
