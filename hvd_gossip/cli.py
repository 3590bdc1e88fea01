"""The command line: hvd-gossip train | report | doctor."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from jsonargparse import ArgumentError, ArgumentParser, set_parsing_settings

from hvd_gossip import __version__
from hvd_gossip.comm import launcher, world
from hvd_gossip.train import TrainConfig


def make_parser() -> ArgumentParser:
    """All subcommands with their options."""
    set_parsing_settings(docstring_parse_attribute_docstrings=True)
    parser = ArgumentParser(
        prog="hvd-gossip",
        exit_on_error=False,
        version=__version__,
        description="Decentralized (gossip) data-parallel training of PyTorch models on MPI machines.",
    )
    commands = parser.add_subcommands(required=True, dest="command")
    train = ArgumentParser(
        exit_on_error=False,
        description="Train on all ranks of the job: mpirun -n 4 hvd-gossip train --graph ring. Values come from "
        "--config FILE.yaml and from flags; flags win.",
    )
    train.add_argument("--config", action="config", help="YAML file with any of the options below")
    train.add_class_arguments(TrainConfig, None)
    commands.add_subcommand("train", train, help="train on all ranks of the job")
    report = ArgumentParser(exit_on_error=False, description="Runs side by side: a table and a picture of the curves.")
    report.add_argument("runs", nargs="+", type=str, help="run folders")
    report.add_argument("--plot", type=str, default=None, help="PNG file for the curves (default: no picture)")
    commands.add_subcommand("report", report, help="compare runs: a table and a picture")
    doctor = ArgumentParser(exit_on_error=False, description="What this machine holds, and what does not fit together.")
    commands.add_subcommand("doctor", doctor, help="say what this machine holds and what does not fit together")
    return parser


def train(arguments: Any) -> None:
    """Train as told; rank 0 says where the run folder is."""
    from hvd_gossip.train import loop

    names = (field.name for field in dataclasses.fields(TrainConfig))
    folder = loop.run(TrainConfig(**{name: arguments[name] for name in names}))
    if world.current().rank == 0:
        print(f"run folder: {folder}")


def report(arguments: Any) -> None:
    """Print the table, draw the picture; under mpirun rank 0 alone does it."""
    from rich.console import Console

    from hvd_gossip.dbench import compare, curves
    from hvd_gossip.train.log import is_terminal

    if not first():
        return
    runs = [compare.read(Path(folder)) for folder in arguments.runs]
    console = Console(force_terminal=is_terminal(), width=None if is_terminal() else 160)
    console.print(compare.table(runs))
    if arguments.plot:
        print(f"curves: {curves.draw(runs, Path(arguments.plot))}")


def doctor(arguments: Any) -> None:
    """Print what was found."""
    from hvd_gossip import doctor as examination

    text = examination.report()
    if first():
        print(text)


COMMANDS = {"train": train, "report": report, "doctor": doctor}


def main(argv: Sequence[str] | None = None) -> None:
    """Run a subcommand; a user's mistake is told once, with exit status 2 on every rank."""
    parser = make_parser()
    try:
        # Help and the like are printed once.
        with contextlib.nullcontext() if first() else contextlib.redirect_stdout(io.StringIO()):
            arguments = parser.parse_args(argv)
        chosen = parser.instantiate(arguments)[arguments.command]
    except (ArgumentError, TypeError, ValueError, OSError) as error:
        refuse(str(error))
    try:
        COMMANDS[arguments.command](chosen)
    except (ValueError, RuntimeError) as error:
        if arguments.command == "report":
            refuse(str(error), everywhere=False)
        # A mistake that only one rank has noticed is a fault: it ends the job with its traceback.
        if arguments.command == "train" and not getattr(error, "agreed", False):
            raise
        refuse(str(error))


def first() -> bool:
    """Whether this process is the one that speaks."""
    return (launcher.told(launcher.RANK) or ("", 0))[1] == 0


def refuse(message: str, everywhere: bool = True) -> NoReturn:
    """End with status 2, `everywhere` on all ranks; rank 0 says why."""
    if first():
        print(f"hvd-gossip: error: {message}", file=sys.stderr, flush=True)
    launched = launcher.told(launcher.SIZE)
    if everywhere and launched and launched[1] > 1:
        # A rank that leaves first would have the launcher end the others before they have spoken.
        world.start()
        world.current().comm.Barrier()
    sys.exit(2)
