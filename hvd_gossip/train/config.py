"""What a training run is told, nested as the code that reads it; every value has its help, unit and default."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from jsonargparse.typing import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from hvd_gossip import specification
from hvd_gossip.algorithms import algorithm
from hvd_gossip.comm.allreduce_mixer import ALLREDUCE
from hvd_gossip.graphs import schedule
from hvd_gossip.models import MODELS
from hvd_gossip.tasks import TASKS, Recipe


@dataclass
class DataConfig:
    """Where data lies and how it reaches the replicas."""

    folder: str | None = None
    """Folder with the task's files; not needed for digits."""
    batch_size: PositiveInt | None = None
    """Samples for each replica and step (default: the task's recipe)."""
    dirichlet: PositiveFloat | None = None
    """Concentration of Dirichlet-skewed shards, e.g. 0.1 for strong skew (default: equal, unskewed shards)."""
    workers: NonNegativeInt = 0
    """Data-loader processes for each replica; 0 loads in the training process."""


@dataclass
class OptimizerConfig:
    """The local optimizer of every replica."""

    name: Literal["sgd", "adam", "adamw"] = "sgd"
    """Which torch optimizer."""
    momentum: NonNegativeFloat = 0.9
    """Momentum of sgd."""
    nesterov: bool = False
    """Nesterov's form of momentum, for sgd."""
    weight_decay: NonNegativeFloat | None = None
    """Weight decay (default: the task's recipe)."""


@dataclass
class RateConfig:
    """The learning rate over the run."""

    base: PositiveFloat | None = None
    """Learning rate of one replica (default: the task's recipe, which is meant for sgd)."""
    scaling: Literal["linear", "sqrt", "none"] = "linear"
    """The rate is multiplied by n, by the square root of n, or not, for n replicas."""
    warmup_epochs: NonNegativeFloat | None = None
    """Epochs in which the rate rises evenly from the base to the scaled rate (default: the task's recipe)."""
    decay: Literal["cosine", "step", "none"] = "cosine"
    """How the rate falls after the warm-up: to zero along a cosine, at milestones, or not."""
    milestones: list[PositiveFloat] = field(default_factory=lambda: [0.5, 0.75])
    """Fractions of the run after which the step decay multiplies the rate by factor."""
    factor: PositiveFloat = 0.1
    """What the step decay multiplies the rate by."""


@dataclass
class TrainConfig:
    """Decentralized or centralized training of one model on one task."""

    task: str = "digits"
    """What is learned: digits (bundled), fashion_mnist or cifar10 (with --data.folder)."""
    model: str | None = None
    """The model: cnn or resnet20 (default: the task's own)."""
    graph: str = "exponential"
    """Who averages with whom, as NAME:option=value,…: see hvd-gossip graph --help; random ones follow the seed."""
    algorithm: str = "dpsgd"
    """How, as NAME:option=value,…: dpsgd (update, then mix), dpsgd:order=awc (mix, then update), allreduce
    (centralized), adaptive_period, choco, d2, dasgd, decentlam, delayed, every, exact_diffusion,
    global_average_every, gossip_pga, gradient_tracking, local_sgd, partial_mixing, push_sum, quasi_global,
    or solo (no communication)."""
    allreduce: str = "horovod"
    """Who carries the algorithm allreduce: horovod, or mpi where Horovod is not installed."""
    wire: Literal["none", "bf16", "fp16"] = "none"
    """What numbers are rounded to while they travel: parameters, or with allreduce gradients (fp16 only)."""
    overlap: bool = False
    """Whether averages go on behind the passes of the model; no result changes."""
    group_size: str | None = None
    """Ranks that hold the mean of their group, while groups gossip on the graph: a number, or node (default: none)."""
    epochs: PositiveInt | None = None
    """Passes over the data (default: the task's recipe)."""
    n: PositiveInt | None = None
    """Number of replicas: that of the job's ranks, which is refused when it is another (default: not checked)."""
    seed: NonNegativeInt = 1
    """Everything random follows from it: initial model, order of data, skew, augmentation, dropout."""
    run: str | None = None
    """Run folder (default: runs/TASK-GRAPH-ALGORITHM-nN-sSEED). The same command run again resumes from it."""
    device: Literal["cpu", "cuda", "auto"] = "cpu"
    """Where the model lives; auto takes cuda where it is available."""
    progress: Literal["auto", "bar", "lines", "none"] = "auto"
    """What rank 0 shows: a bar on a terminal and plain lines otherwise, or one of them."""
    data: DataConfig = field(default_factory=DataConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    rate: RateConfig = field(default_factory=RateConfig)


MAX_SEED = 2**32 - 1
MAX_CONCENTRATION = 1e6
MAY_CHANGE = ("run", "progress", "overlap", "data.workers", "data.folder")
"""What a resumed run may be told differently: it changes no step already taken."""


def check(config: TrainConfig, n: int) -> None:
    """Refuse what cannot be trained on n replicas, before anything starts.

    Raises:
        ValueError: an unknown name or option, or values that contradict each other.
    """
    specification.choose("task", config.task, TASKS)
    if config.model is not None:
        specification.choose("model", config.model, MODELS)
    specification.choose("allreduce", config.allreduce, ALLREDUCE)
    algorithm(config.algorithm)
    with warnings.catch_warnings():
        # What a graph does to the mean is told once, when it is made for training.
        warnings.simplefilter("ignore", UserWarning)
        schedule(config.graph, replicas(config, n), config.seed)
    if config.n not in (None, n):
        raise ValueError(f"got n = {config.n}, but this job has {n} ranks: start as many, or leave n out")
    if config.seed > MAX_SEED:
        raise ValueError(f"got seed = {config.seed}: expected at most {MAX_SEED}")
    if (config.data.dirichlet or 0) > MAX_CONCENTRATION:
        raise ValueError(
            f"got data.dirichlet = {config.data.dirichlet}: expected at most {MAX_CONCENTRATION:.0e}; leave it out for "
            "even shards"
        )
    for name, value in flat(nested(config)).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"got {name} = {value}: expected a finite number")
    if config.optimizer.nesterov and not (config.optimizer.name == "sgd" and config.optimizer.momentum > 0):
        raise ValueError("optimizer.nesterov needs optimizer.name sgd and optimizer.momentum above 0")
    if any(milestone >= 1 for milestone in config.rate.milestones):
        raise ValueError(f"rate.milestones are fractions of the run below 1, got {config.rate.milestones}")


def replicas(config: TrainConfig, n: int) -> int:
    """How many replicas the graph has: ranks, or groups of them.

    Raises:
        ValueError: groups do not come out even.
    """
    if config.group_size is None:
        return n
    if not config.group_size.isdigit() or int(config.group_size) < 1 or n % int(config.group_size):
        raise ValueError(f"got group_size = {config.group_size!r} for {n} ranks: expected a divisor of {n}, or node")
    return n // int(config.group_size)


def resolve(config: TrainConfig, recipe: Recipe, model: str, n: int) -> TrainConfig:
    """The configuration with the task's recipe filled in where the user said nothing."""

    def told(value: Any, default: Any) -> Any:
        return default if value is None else value

    return dataclasses.replace(
        config,
        model=told(config.model, model),
        n=n,
        epochs=told(config.epochs, recipe.epochs),
        run=str(Path(told(config.run, default_run(config, n))).expanduser()),
        data=dataclasses.replace(config.data, batch_size=told(config.data.batch_size, recipe.batch_size)),
        optimizer=dataclasses.replace(
            config.optimizer, weight_decay=told(config.optimizer.weight_decay, recipe.weight_decay)
        ),
        rate=dataclasses.replace(
            config.rate,
            base=told(config.rate.base, recipe.rate),
            warmup_epochs=told(config.rate.warmup_epochs, recipe.warmup_epochs),
        ),
    )


def default_run(config: TrainConfig, n: int) -> str:
    """A run folder that tells the main choices."""
    graph = "" if algorithm(config.algorithm).centralized else f"-{config.graph}"
    wire = "" if config.wire == "none" else f"-{config.wire}"
    groups = "" if config.group_size is None else f"-g{config.group_size}"
    name = f"{config.task}{graph}-{config.algorithm}{wire}-n{n}{groups}-s{config.seed}"
    return "runs/" + "".join(c if c.isalnum() or c in "-_." else "_" for c in name)


def nested(config: TrainConfig) -> dict[str, Any]:
    """The configuration as dictionaries of plain values, as YAML and JSON know them."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def flat(values: dict[str, Any]) -> dict[str, Any]:
    """Dotted names and values of a nested configuration."""
    groups = {name: value if isinstance(value, dict) else {"": value} for name, value in values.items()}
    return {f"{name}.{key}".rstrip("."): value for name, group in groups.items() for key, value in group.items()}


def identity(config: TrainConfig) -> dict[str, Any]:
    """The dotted names and values that decide the steps of a run."""
    return {name: value for name, value in flat(nested(config)).items() if name not in MAY_CHANGE}


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What differs between two flat configurations and may not, as text."""
    names = sorted((old.keys() | new.keys()) - set(MAY_CHANGE))
    return [f"{name}: {old.get(name)!r}, now {new.get(name)!r}" for name in names if old.get(name) != new.get(name)]
