"""What is known of a graph in one record: size, degrees, spectrum, rounds to consensus, price of a step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hvd_gossip.graphs import limits
from hvd_gossip.graphs.consensus import consensus_rate, rounds_to_consensus, simulate
from hvd_gossip.graphs.cost import size_of
from hvd_gossip.graphs.schedules import Schedule, as_schedule, looked_at
from hvd_gossip.graphs.topology import Topology, integer

BUDGET = 3e8
"""A simulation is left out when it would take more than so many multiplications."""


@dataclass(frozen=True)
class Description:
    """A graph, or a schedule over its period.

    Attributes:
        graph: its name.
        n: number of replicas.
        edges: edges j -> i, so that an undirected edge counts twice; the mean of the rounds looked at.
        degree_in: the most replicas that one hears, in any round looked at.
        degree_out: the most replicas that hear one.
        symmetric: whether W is, in every round looked at.
        doubly_stochastic: whether W is, in every round looked at; if not, replicas drift to no even mean.
        gap: 1 - the factor by which the disagreement shrinks in a round, on average.
        gap_of: what the gap was taken from: a graph, a period, a second moment, the first 32 rounds.
        second_moment_gap: 1 - lambda_2(E[W^T W]) of a random schedule, else None.
        second_moment_error: its standard error, 0 for a closed form.
        period: after how many rounds the graphs come round again, or None.
        epsilon: the part of the disagreement that is left at consensus.
        rounds: rounds to consensus by the formula; None where it is never reached.
        rounds_simulated: the same by simulation, None where it was not done or not reached.
        parameters: how many a rank sends to each that hears it.
        bytes_per_step: bytes that the busiest rank sends in a round, the mean of the rounds looked at.
        messages_per_step: messages, likewise.
        heaviest: of a static W that is not doubly stochastic, the largest part of the mean that one replica has.
        lightest: the smallest part.
    """

    graph: str
    n: int
    edges: float
    degree_in: int
    degree_out: int
    symmetric: bool
    doubly_stochastic: bool
    gap: float
    gap_of: str
    second_moment_gap: float | None
    second_moment_error: float | None
    period: int | None
    epsilon: float
    rounds: int | None
    rounds_simulated: int | None
    parameters: float
    bytes_per_step: float
    messages_per_step: float
    heaviest: float | None = None
    lightest: float | None = None


def describe(
    schedule: Topology | Schedule,
    round: int | None = None,
    epoch: int = 0,
    epsilon: float = 1e-3,
    parameters: float = 25.6e6,
    wire_bytes: float = 4,
) -> Description:
    """Look at a schedule over its period (32 rounds where it has none), or at the graph of one round.

    Args:
        schedule: any.
        round: look at the graph of this round alone.
        epoch: the epoch.
        epsilon: the part of the disagreement that is left at consensus.
        parameters: how many a rank sends to each that hears it.
        wire_bytes: bytes of one parameter on the wire.

    Raises:
        ValueError: epsilon is not between 0 and 1, a number is out of range, or the graph is too large.

    Example:
        >>> from hvd_gossip.graphs import schedule
        >>> found = describe(schedule("ring", 12))
        >>> found.degree_in, round(found.gap, 5), found.rounds
        (2, 0.08932, 74)
    """
    schedule = as_schedule(schedule)
    for clock, value in (("round", round or 0), ("epoch", epoch)):
        integer(schedule.name, clock, value, least=0)
    size = size_of(parameters, wire_bytes)
    graphs, times = zip(*(looked_at(schedule, epoch) if round is None else [(schedule(round, epoch), 1)]), strict=True)
    degrees = [topology.degrees() for topology in graphs]
    sent = [int(heard_by.max()) for _, heard_by in degrees]
    rate = consensus_rate(schedule, round, epoch)
    rounds = rounds_to_consensus(rate, epsilon)
    edges = float(np.average([hears.sum() for hears, _ in degrees], weights=times))
    messages = float(np.average(sent, weights=times))
    heaviest, lightest = parts_of_mean(graphs)
    moment = rate.second_moment
    return Description(
        graph=schedule.name if round is None or schedule.period == 1 else graphs[0].name,
        n=schedule.n,
        edges=int(edges) if edges.is_integer() else edges,
        degree_in=max(int(hears.max()) for hears, _ in degrees),
        degree_out=max(sent),
        symmetric=all(topology.symmetric for topology in graphs),
        doubly_stochastic=all(topology.doubly_stochastic for topology in graphs),
        gap=rate.gap,
        gap_of=rate.kind,
        second_moment_gap=1 - moment.value if moment else None,
        second_moment_error=moment.error if moment else None,
        period=schedule.period,
        epsilon=epsilon,
        rounds=int(rounds) if math.isfinite(rounds) else None,
        rounds_simulated=None if round is not None else simulated(schedule, epsilon, rounds, edges + schedule.n, epoch),
        parameters=parameters,
        bytes_per_step=size * messages,
        messages_per_step=messages,
        heaviest=heaviest,
        lightest=lightest,
    )


def parts_of_mean(graphs: Sequence[Topology]) -> tuple[float | None, float | None]:
    """Largest and smallest part that a replica has of the mean that a static graph drifts to, where it is not even."""
    static = len(graphs) == 1 and not graphs[0].doubly_stochastic
    counts = limits.known_limit(graphs[0]) if static else None
    return (None, None) if counts is None else (float(counts.max()), float(counts.min()))


def simulated(schedule: Schedule, epsilon: float, expected: float, work: float, epoch: int) -> int | None:
    """Rounds to consensus by simulation, unless that is too much work or never ends."""
    if not math.isfinite(expected) or 16 * expected * work > BUDGET:
        return None
    errors = simulate(schedule, epsilon, cap=4 * int(expected) + 100, epoch=epoch)
    return len(errors) - 1 if errors[-1] <= epsilon else None
