"""The configuration: what is refused, what the recipe fills in, and what a resumed run may not change."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from hvd_gossip.algorithms import ALGORITHMS
from hvd_gossip.tasks import Recipe
from hvd_gossip.train.config import (
    MAY_CHANGE,
    DataConfig,
    OptimizerConfig,
    RateConfig,
    TrainConfig,
    check,
    default_run,
    differences,
    flat,
    nested,
    resolve,
)

RECIPE = Recipe(epochs=7, batch_size=11, rate=0.3, weight_decay=0.25, warmup_epochs=2.5)
# Dotted name, what a user might tell, what the recipe says.
FILLED = (
    ("model", "resnet20", "cnn"),
    ("epochs", 3, 7),
    ("run", "somewhere", "runs/digits-ring-dpsgd-n4-s1"),
    ("data.batch_size", 1, 11),
    ("optimizer.weight_decay", 0.0, 0.25),
    ("rate.base", 0.5, 0.3),
    ("rate.warmup_epochs", 0.0, 2.5),
)


def told(name: str, value: Any) -> TrainConfig:
    """The default configuration on a ring, with one value told by the user."""
    config = TrainConfig(graph="ring")
    group, _, field = name.rpartition(".")
    if not group:
        return dataclasses.replace(config, **{field: value})
    return dataclasses.replace(config, **{group: dataclasses.replace(getattr(config, group), **{field: value})})


@pytest.mark.parametrize("n", [1, 2, 4, 12])
@pytest.mark.parametrize("graph", ["ring", "exponential", "complete"])
@pytest.mark.parametrize("algorithm", ["dpsgd", "dpsgd:order=awc", "allreduce"])
def test_what_can_be_trained_passes(graph: str, algorithm: str, n: int) -> None:
    check(TrainConfig(graph=graph, algorithm=algorithm), n)
    check(TrainConfig(optimizer=OptimizerConfig(nesterov=True), model="resnet20", allreduce="mpi"), n)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (
            TrainConfig(task="digit"),
            "unknown task 'digit': expected one of cifar10, digits, fashion_mnist; did you mean",
        ),
        (TrainConfig(model="cn"), "unknown model 'cn': expected one of cnn, resnet20; did you mean 'cnn'?"),
        (
            TrainConfig(group_size="3"),
            r"got group_size = '3' for 4 ranks: expected a divisor of 4, or node",
        ),
        (
            TrainConfig(graph="rign"),
            "did you mean 'ring'?",
        ),
        (TrainConfig(graph="ring:k=2"), "unknown option of graph 'ring' 'k'"),
        (TrainConfig(graph=""), "expected NAME"),
        (
            TrainConfig(algorithm="dpsdg"),
            f"unknown algorithm 'dpsdg': expected one of {', '.join(sorted(ALGORITHMS))}; did you mean 'dpsgd'?",
        ),
        (
            TrainConfig(algorithm="dpsgd:order=awx"),
            "unknown order 'awx': expected one of atc, awc; did you mean 'awc'?",
        ),
        (TrainConfig(allreduce="mpj"), "unknown allreduce 'mpj': expected one of horovod, mpi; did you mean 'mpi'?"),
        (TrainConfig(optimizer=OptimizerConfig(nesterov=True, momentum=0.0)), "optimizer.nesterov needs"),
        (
            TrainConfig(optimizer=OptimizerConfig(nesterov=True, name="adam")),
            "optimizer.name sgd and optimizer.momentum",
        ),
        (
            TrainConfig(rate=RateConfig(milestones=[0.5, 1.0])),
            "rate.milestones are fractions of the run below 1, got [0.5, 1.0]",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused(config: TrainConfig, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        check(config, 4)


@pytest.mark.parametrize("name", ["data.dirichlet", "optimizer.momentum", "optimizer.weight_decay", "rate.base"])
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_number_that_is_not_finite_is_refused(name: str, value: float) -> None:
    """An infinite concentration would give one replica all the data."""
    with pytest.raises(ValueError, match=re.escape(name)):
        check(told(name, value), 4)


@pytest.mark.parametrize(("name", "value", "recipes"), FILLED)
def test_the_recipe_fills_in_what_the_user_left_out(name: str, value: Any, recipes: Any) -> None:
    config = told(name, value)
    before = nested(config)
    found = flat(nested(resolve(config, RECIPE, "cnn", 4)))
    # A value that is told stays, zero included; all others of the table are the recipe's; nothing else changes.
    expected = {other: value if other == name else filled for other, _, filled in FILLED}
    assert found == flat(before) | {"n": 4} | expected
    assert nested(config) == before


def test_resolving_again_changes_nothing() -> None:
    once = resolve(TrainConfig(), RECIPE, "cnn", 4)
    assert resolve(once, Recipe(), "resnet20", 4) == once


@settings(deadline=None)
@given(
    st.text(max_size=20).map(lambda text: f"own{text}"),
    st.sampled_from(["ring", "exponential", "ring:k=2"]),
    st.integers(1, 999),
    st.integers(0, 99),
)
def test_the_default_folder_tells_the_choices_in_a_safe_name(task: str, graph: str, n: int, seed: int) -> None:
    name = default_run(TrainConfig(task=task, graph=graph, algorithm="dpsgd:order=awc", seed=seed), n)
    folder, _, name = name.partition("/")
    assert folder == "runs"
    assert re.fullmatch(
        r"own[\w.-]*-" + graph.replace(":", "_").replace("=", "_") + rf"-dpsgd_order_awc-n{n}-s{seed}", name
    )


def test_the_default_folder_of_a_centralized_run_names_no_graph() -> None:
    assert default_run(TrainConfig(algorithm="allreduce", graph="ring"), 4) == "runs/digits-allreduce-n4-s1"


def test_nested_values_are_plain_and_survive_yaml() -> None:
    config = TrainConfig(epochs=3, data=DataConfig(dirichlet=1e-7), rate=RateConfig(base=1e-5, milestones=[0.25]))
    values = nested(config)
    assert yaml.safe_load(yaml.safe_dump(values)) == values
    groups: dict[str, Any] = {"data": DataConfig, "optimizer": OptimizerConfig, "rate": RateConfig}
    rebuilt: dict[str, Any] = {
        name: groups[name](**value) if name in groups else value for name, value in values.items()
    }
    assert TrainConfig(**rebuilt) == config


def test_flat_names_every_value_by_its_dotted_name() -> None:
    found = flat(nested(TrainConfig(graph="ring", rate=RateConfig(base=0.5))))
    assert (found["graph"], found["rate.base"], found["data.folder"]) == ("ring", 0.5, None)
    fields = dataclasses.fields(TrainConfig)
    assert len(found) == len(fields) - 3 + sum(
        len(dataclasses.fields(c)) for c in (DataConfig, OptimizerConfig, RateConfig)
    )
    assert flat({"a": 1, "b": {"c": [2], "d": None}}) == {"a": 1, "b.c": [2], "b.d": None}


@pytest.mark.parametrize("name", flat(nested(TrainConfig())))
def test_a_difference_is_told_unless_it_may_be(name: str) -> None:
    old = flat(nested(TrainConfig()))
    new = old | {name: "another"}
    assert differences(old, old) == []
    assert differences(old, new) == ([] if name in MAY_CHANGE else [f"{name}: {old[name]!r}, now 'another'"])


def test_what_may_change_changes_no_step() -> None:
    assert set(MAY_CHANGE) <= set(flat(nested(TrainConfig())))
    assert not {name for name in MAY_CHANGE if name.startswith(("rate.", "optimizer."))}


def test_a_value_that_only_one_side_knows_is_a_difference() -> None:
    assert differences({"n": 4}, {}) == ["n: 4, now None"]
    assert differences({}, {"n": 4, "a": 1}) == ["a: None, now 1", "n: None, now 4"]
