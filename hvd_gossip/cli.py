"""The command line: hvd-gossip train | graph | plan | report | bench | doctor."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from jsonargparse import ArgumentError, ArgumentParser, set_parsing_settings
from jsonargparse.typing import NonNegativeInt, PositiveFloat, PositiveInt

from hvd_gossip import __version__, pictures
from hvd_gossip.bench.config import BenchConfig
from hvd_gossip.comm import launcher, world
from hvd_gossip.graphs import RULES
from hvd_gossip.graphs.registry import listing
from hvd_gossip.train import TrainConfig
from hvd_gossip.train.log import console

GRAPH_HELP = (
    f"Graphs with their options: {listing()}. Options are given as NAME:option=value,…, those with =… must "
    "be; weights=RULE is one of any graph. file:PATH reads one edge SOURCE DESTINATION [WEIGHT] a line."
)


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
    commands.add_subcommand("graph", graph_parser(), help="what a graph is worth: degrees, gap, rounds, price, picture")
    commands.add_subcommand("plan", plan_parser(), help="which graph for this machine and number of replicas")
    report = ArgumentParser(exit_on_error=False, description="Runs side by side: a table and a picture of the curves.")
    report.add_argument("runs", nargs="+", type=str, help="run folders")
    report.add_argument("--plot", type=str, default=None, help="PNG file for the curves (default: no picture)")
    commands.add_subcommand("report", report, help="compare runs: a table and a picture")
    bench = ArgumentParser(
        exit_on_error=False,
        description="Times of exchanges and of training steps on all ranks of the job, the candidates taking turns: "
        "mpirun -n 4 hvd-gossip bench.",
    )
    bench.add_argument("--config", action="config", help="YAML file with any of the options below")
    bench.add_class_arguments(BenchConfig, None)
    commands.add_subcommand("bench", bench, help="measure gossip beside Horovod, MPI and a memory copy")
    doctor = ArgumentParser(exit_on_error=False, description="What this machine holds, and what does not fit together.")
    commands.add_subcommand("doctor", doctor, help="say what this machine holds and what does not fit together")
    return parser


def graph_parser() -> ArgumentParser:
    """Options of `graph`."""
    parser = ArgumentParser(
        exit_on_error=False,
        description="Degrees, spectral gap, rounds to consensus and price of graphs; no MPI is needed. A schedule is "
        "looked at over its period, or over 32 rounds, unless --round is given. Edges j -> i count one by one, an edge "
        "in both directions twice. " + GRAPH_HELP,
    )
    parser.add_argument("graphs", nargs="+", type=str, help="short forms, for example ring torus base_k:k=2")
    parser.add_argument(
        "--round", type=NonNegativeInt | None, default=None, help="look at the graph of this round alone"
    )
    parser.add_argument("--epoch", type=NonNegativeInt, default=0, help="for graphs that change with the epoch")
    parser.add_argument("--seed", type=NonNegativeInt, default=0, help="for random graphs without a seed of their own")
    parser.add_argument("--weights", type=str | None, default=None, help=f"rule for weights: {', '.join(RULES)}")
    parser.add_argument(
        "--plot", type=str | None, default=None, help="PNG file: one graph drawn, or of several, how fast they agree"
    )
    add_common_options(parser)
    return parser


def plan_parser() -> ArgumentParser:
    """Options of `plan`."""
    parser = ArgumentParser(
        exit_on_error=False,
        description="Graphs ranked by the time they need until replicas agree, with allreduce among them. Without "
        "--link, links are assumptions: shared memory of 20 GB/s inside nodes, 100 Gb/s between them.",
    )
    parser.add_argument("graphs", nargs="*", type=str, help="short forms (default: those that fit)")
    parser.add_argument("--ranks-per-node", type=PositiveInt, default=1, help="replicas on a node")
    parser.add_argument(
        "--link",
        type=str,
        action="append",
        default=[],
        help="inside:… or between:… with latency (s), bandwidth (bytes/s in each direction: inside, of each rank; "
        "between, shared by the ranks of a node), overhead (s for each message); for example "
        "between:latency=1.5e-6,bandwidth=25e9; may be given for both",
    )
    parser.add_argument("--seed", type=NonNegativeInt, default=0, help="for random graphs")
    parser.add_argument("--plot", type=str | None, default=None, help="PNG file")
    add_common_options(parser)
    return parser


def add_common_options(parser: ArgumentParser) -> None:
    """Options of both."""
    parser.add_argument("--json", action="store_true", help="JSON instead of a table: one line for each graph or plan")
    parser.add_argument("-n", "--n", type=int | None, default=None, help="number of replicas; has to be given")
    parser.add_argument(
        "--parameters",
        type=PositiveFloat,
        default=25.6e6,
        help="parameters of the model (the default is ResNet50's size)",
    )
    parser.add_argument("--wire-bytes", type=PositiveFloat, default=4.0, help="bytes of one parameter on the wire")
    parser.add_argument(
        "--epsilon", type=PositiveFloat, default=1e-3, help="part of the disagreement left at consensus"
    )


def train(arguments: Any) -> None:
    """Train as told; rank 0 says where the run folder is."""
    from hvd_gossip.train import loop

    names = (field.name for field in dataclasses.fields(TrainConfig))
    folder = loop.run(TrainConfig(**{name: arguments[name] for name in names}))
    if world.current().rank == 0:
        print(f"run folder: {folder}")


def bench(arguments: Any) -> None:
    """Measure; rank 0 prints."""
    from hvd_gossip.bench import run

    run.run(BenchConfig(**{field.name: arguments[field.name] for field in dataclasses.fields(BenchConfig)}))


def report(arguments: Any) -> None:
    """Print the table, draw the picture; under mpirun rank 0 alone does it."""
    from hvd_gossip.dbench import compare, curves

    if not first():
        return
    require_picture(arguments.plot)
    runs = [compare.read(Path(folder)) for folder in arguments.runs]
    console().print(compare.table(runs))
    if arguments.plot:
        print(f"curves: {curves.draw(runs, Path(arguments.plot))}")


def graph(arguments: Any) -> None:
    """Print the table or JSON, draw the picture."""
    from hvd_gossip import graph_report
    from hvd_gossip.graphs.description import describe

    if not first():
        return
    graph_report.require_size(arguments.n)
    require_picture(arguments.plot)
    found, warned = graph_report.schedules(arguments.graphs, arguments.n, arguments.seed, arguments.weights)
    for message in warned:
        print(f"hvd-gossip: warning: {message}", file=sys.stderr)
    told = [
        describe(one, arguments.round, arguments.epoch, arguments.epsilon, arguments.parameters, arguments.wire_bytes)
        for one in found
    ]
    if arguments.json:
        print(*map(graph_report.as_json, told), sep="\n")
    else:
        console().print(graph_report.table(told))
    if arguments.plot:
        path = graph_report.picture(found, told, arguments.round, arguments.epoch, Path(arguments.plot))
        print(f"picture: {path}", file=sys.stderr if arguments.json else sys.stdout)


def plan(arguments: Any) -> None:
    """Print the ranked table, draw the picture."""
    from hvd_gossip import graph_report
    from hvd_gossip.graphs import cost, planning

    if not first():
        return
    graph_report.require_size(arguments.n)
    require_picture(arguments.plot)
    made = planning.plan(
        arguments.n,
        arguments.parameters,
        arguments.ranks_per_node,
        cost.links(arguments.link),
        arguments.epsilon,
        arguments.wire_bytes,
        tuple(arguments.graphs),
        arguments.seed,
    )
    if arguments.json:
        print(graph_report.plan_json(made, arguments.n, arguments.epsilon))
    else:
        console().print(graph_report.plan_table(made, arguments.n, arguments.epsilon))
        for name, why in made.left_out.items():
            print(f"left out: {why if name in why else f'{name}: {why}'}")
    if arguments.plot:
        path = graph_report.plan_picture(made, arguments.n, arguments.epsilon, Path(arguments.plot))
        print(f"picture: {path}", file=sys.stderr if arguments.json else sys.stdout)


def require_picture(plot: str | None) -> None:
    """Refuse at once a picture that could not be written."""
    if plot:
        pictures.require(Path(plot))


def doctor(arguments: Any) -> None:
    """Print what was found."""
    from hvd_gossip import doctor as examination

    text = examination.report()
    if first():
        print(text)


COMMANDS = {"train": train, "graph": graph, "plan": plan, "report": report, "bench": bench, "doctor": doctor}
ALONE = ("graph", "plan", "report")
"""What rank 0 does alone."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run a subcommand; a user's mistake is told once, with exit status 2 on every rank."""
    parser = make_parser()
    if not (sys.argv[1:] if argv is None else argv):
        refuse(f"which command? One of {', '.join(COMMANDS)}; --help tells more")
    try:
        # Help and the like are printed once.
        with contextlib.nullcontext() if first() else contextlib.redirect_stdout(io.StringIO()):
            arguments = parser.parse_args(argv)
        chosen = parser.instantiate(arguments)[arguments.command]
    except (ArgumentError, TypeError, ValueError, OSError) as error:
        refuse(str(error))
    if not first():
        # What a graph does to the mean is the same on all ranks; rank 0 tells it.
        warnings.filterwarnings("ignore", message="graph '.*W is not doubly stochastic")
    try:
        COMMANDS[arguments.command](chosen)
    except BrokenPipeError:
        # Whoever read the output has had enough; what is left in the buffer goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, RuntimeError) as error:
        if arguments.command in ALONE:
            refuse(str(error), everywhere=False)
        # A mistake that only one rank has noticed is a fault: it ends the job with its traceback.
        if arguments.command in ("train", "bench") and not getattr(error, "agreed", False):
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
