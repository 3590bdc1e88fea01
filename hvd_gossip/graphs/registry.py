"""The table of graphs by name, and what a user's `graph` argument means."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from hvd_gossip import specification
from hvd_gossip.graphs import limits, weights
from hvd_gossip.graphs.schedules import Schedule, Static, Varying, as_schedule
from hvd_gossip.graphs.topology import Topology

Factory = TypeVar("Factory", bound=Callable[..., "Topology | Schedule"])

GRAPHS: dict[str, Callable[..., Topology | Schedule]] = {}
"""Name -> factory, which takes n and the options of the short form."""


def graph(factory: Factory) -> Factory:
    """Enter a factory into the table under its own name."""
    GRAPHS[factory.__name__] = factory
    return factory


def listing() -> str:
    """All names with their options; `=…` follows those that must be given."""
    told = []
    for name, factory in sorted(GRAPHS.items()):
        parameters = [one for one in inspect.signature(factory).parameters.values() if one.name not in ("n", "weights")]
        options = [f"{one.name}=…" if one.default is one.empty else one.name for one in parameters]
        told.append(f"{name} ({', '.join(options)})" if options else name)
    return ", ".join(told)


def build(text: str, n: int, seed: int = 0) -> Topology | Schedule:
    """The graph of a short form; `seed` is for random ones that are given none of their own.

    Raises:
        ValueError: unknown name or option, a value that does not fit, or an option that is missing.
    """
    name, options = specification.parse(expand(text))
    specification.choose("graph", name, GRAPHS)
    parameters = inspect.signature(GRAPHS[name]).parameters
    rule = None if "weights" in parameters else options.pop("weights", None)
    for parameter in parameters.values():
        if parameter.default is parameter.empty and parameter.name not in ("n", *options):
            raise ValueError(f"graph {name!r} needs the option {parameter.name}: give {name}:{parameter.name}=…")
    if "seed" in parameters:
        options.setdefault("seed", seed)
    made = specification.make("graph", text, GRAPHS[name], name, options, also=("weights",), n=n)
    return made if rule is None else reweighted(made, str(rule))


def expand(text: str) -> str:
    """`file:PATH` is short for `file:path=PATH`."""
    if isinstance(text, str) and text.startswith("file:") and not text.startswith("file:path="):
        return "file:path=" + text.removeprefix("file:")
    return text


def reweighted(made: Topology | Schedule, rule: str) -> Topology | Schedule:
    """The same edges with the weights of a rule, in every round."""
    if isinstance(made, Topology):
        return weights.reweight(made, rule)

    @lru_cache(maxsize=made.period or 4)
    def change(topology: Topology) -> Topology:
        with warnings.catch_warnings():
            # It is told of the schedule as a whole.
            warnings.simplefilter("ignore", UserWarning)
            return weights.reweight(topology, rule)

    if rule == "fastest" and made.period is None:
        raise ValueError(f"graph {made.name!r} has no period: weights 'fastest' would solve a program in every round")
    degree, random = getattr(made, "degree", None), getattr(made, "random", False)
    name = specification.with_option(made.name, weights=rule)
    found = Varying(name, made.n, lambda round, epoch: change(made(round, epoch)), made.period, degree, random)
    limits.examine(found)
    return found


def schedule(graph: str | Topology | Schedule, n: int, seed: int = 0) -> Schedule:
    """The schedule that a user's `graph` argument means.

    Args:
        graph: a name as `"ring"`, with options as `"name:option=value"`; a `Topology`; or a `Schedule` of one's own.
        n: the number of replicas it has to fit.
        seed: for random graphs that are given none of their own.

    Raises:
        ValueError: unknown name or option, a graph made for another n, or one that is not connected.

    Warns:
        UserWarning: W is not doubly stochastic; says what the replicas will drift to.

    Example:
        >>> schedule("exponential", 8)(round=0).row(0).sources.tolist()
        [4, 6, 7]
    """
    found = as_schedule(build(graph, n, seed) if isinstance(graph, str) else graph, "a name, a Topology or a Schedule")
    if found.n != n:
        raise ValueError(f"graph {found.name!r} is made for {found.n} replicas, but this job has {n} ranks")
    # Those of the table are sound, and what has been given to `schedule` before is not looked at again.
    if not isinstance(graph, str) and not getattr(found, "checked", False):
        limits.examine(found)
    if isinstance(found, Static | Varying):
        found.checked = True
    return found


def static(text: str, n: int, seed: int = 0) -> Topology:
    """The graph of a short form that stays the same in every round.

    Raises:
        ValueError: as `build`, or the graph changes from round to round.
    """
    found = build(text, n, seed)
    if not isinstance(found, Topology):
        raise ValueError(f"graph {text!r} changes from round to round: expected one that stays the same")
    return found
