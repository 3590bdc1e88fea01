"""What methods assume of the mixing matrix, looked at before training."""

from __future__ import annotations

from typing import Protocol

from hvd_gossip.graphs import Schedule
from hvd_gossip.graphs.schedules import COMPARED


class Needs(Protocol):
    """What an algorithm says of W."""

    name: str
    symmetric: bool
    doubly_stochastic: bool
    static: bool


def check(method: Needs, schedule: Schedule) -> None:
    """Refuse a schedule whose graphs are not what the method assumes; of a changing one the first rounds tell.

    Raises:
        ValueError: names the method, what it needs, and what it got.
    """
    if schedule.n == 1:
        return
    if method.static and schedule.period != 1:
        raise ValueError(
            f"algorithm {method.name!r} needs the same graph in every round, got {schedule.name!r}, which changes: "
            "use a static graph such as ring, torus or exponential"
        )
    for early in range(min(schedule.period or COMPARED, COMPARED)):
        topology = schedule(early)
        if method.symmetric and not topology.symmetric:
            raise ValueError(
                f"algorithm {method.name!r} needs a symmetric W, got {topology.name!r}, which is not: use an "
                "undirected graph such as ring, torus or symmetric_exponential, or weights=metropolis"
            )
        if method.doubly_stochastic and not topology.doubly_stochastic:
            raise ValueError(
                f"algorithm {method.name!r} needs a doubly stochastic W, got {topology.name!r}, whose columns do not "
                "sum to 1: use weights=metropolis, or algorithm push_sum, which needs none"
            )


def check_number(method: str, option: str, value: float, least: float, most: float) -> float:
    """An option of a method as a float within bounds.

    Raises:
        ValueError: it is no number, or out of bounds.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueError(f"algorithm {method!r}: got {option} = {value!r}, expected a number from {least} to {most}")
    return float(value)


def check_count(method: str, option: str, value: int, least: int = 1) -> int:
    """An option of a method as an int.

    Raises:
        ValueError: it is no integer of at least `least`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"algorithm {method!r}: got {option} = {value!r}, expected an integer of at least {least}")
    return value


def check_flag(method: str, option: str, value: bool) -> bool:
    """An option of a method as a bool.

    Raises:
        ValueError: it is neither true nor false.
    """
    if not isinstance(value, bool):
        raise ValueError(f"algorithm {method!r}: got {option} = {value!r}, expected true or false")
    return value
