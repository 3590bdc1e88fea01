"""Tasks: real data with its loss, metric and recipe."""

from __future__ import annotations

from collections.abc import Callable

from hvd_gossip import specification
from hvd_gossip.tasks.base import Images, Recipe, Task
from hvd_gossip.tasks.cifar10 import cifar10
from hvd_gossip.tasks.digits import digits
from hvd_gossip.tasks.fashion_mnist import fashion_mnist

TASKS: dict[str, Callable[[str | None], Task]] = {
    "cifar10": cifar10,
    "digits": digits,
    "fashion_mnist": fashion_mnist,
}

__all__ = ["TASKS", "Images", "Recipe", "Task", "load"]


def load(name: str, folder: str | None = None) -> Task:
    """The task of this name, its data read.

    Raises:
        ValueError: unknown name, or data that is missing or damaged.

    Example:
        >>> len(load("digits").test)
        360
    """
    specification.choose("task", name, TASKS)
    return TASKS[name](folder)
