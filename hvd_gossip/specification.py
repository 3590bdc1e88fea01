"""The short form `name:option=value,option=value` by which graphs and algorithms are chosen."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

Option = bool | int | float | str


def parse(text: str) -> tuple[str, dict[str, Option]]:
    """Split `name:option=value,…` into its name and its options.

    Values become `bool`, `int`, `float` or stay `str`, whichever fits first. A value in parentheses may be a short form
    with commas of its own.

    Raises:
        ValueError: the text is empty, or an option has no value or stands twice.

    Example:
        >>> parse("ring_lattice:k=10")
        ('ring_lattice', {'k': 10})
        >>> parse("every:h=4,of=(choco:compressor=sign,gamma=0.3)")
        ('every', {'h': 4, 'of': 'choco:compressor=sign,gamma=0.3'})
    """
    if not isinstance(text, str):
        raise ValueError(f"got {text!r}: expected a text such as NAME or NAME:option=value")
    name, _, tail = (piece.strip() for piece in text.partition(":"))
    if not name:
        raise ValueError(f"got {text!r}: expected NAME or NAME:option=value,option=value")
    options: dict[str, Option] = {}
    for part in filter(None, (piece.strip() for piece in split(tail, text))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise ValueError(f"got {part!r} in {text!r}: expected option=value")
        if key in options:
            raise ValueError(f"got option {key!r} twice in {text!r}: give it once")
        nested = value.startswith("(") and value.endswith(")")
        options[key] = value[1:-1] if nested else convert(value)
    return name, options


def split(tail: str, text: str) -> list[str]:
    """The parts between commas that stand in no parentheses.

    Raises:
        ValueError: parentheses do not match.
    """
    parts, depth = [""], 0
    for letter in tail:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            break
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    if depth:
        raise ValueError(f"got {text!r}: expected matching parentheses")
    return parts


def label(name: str, **options: Any) -> str:
    """The short form of a name with its options; those that are None are left out.

    Example:
        >>> label("ring_lattice", k=10, seed=None)
        'ring_lattice:k=10'
    """
    told = ",".join(
        f"{option}={str(value).lower() if isinstance(value, bool) else value}"
        for option, value in options.items()
        if value is not None
    )
    return f"{name}:{told}" if told else name


def with_option(text: str, **options: Any) -> str:
    """A short form with further options.

    Example:
        >>> with_option("ring_lattice:k=10", weights="lazy")
        'ring_lattice:k=10,weights=lazy'
    """
    return text + ("," if ":" in text else ":") + label("", **options).removeprefix(":")


def convert(value: str) -> Option:
    """Turn the text of an option into a bool, int, finite float or str, whichever fits first."""
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    for kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            continue
        return number if isinstance(number, int) or math.isfinite(number) else value
    return value


def choose(what: str, name: str, choices: Collection[str]) -> None:
    """Refuse a name that is not among the choices, naming the nearest one.

    Raises:
        ValueError: `name` is unknown.
    """
    if name in choices:
        return
    nearest = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    raise ValueError(f"unknown {what} {name!r}: expected one of {', '.join(sorted(choices))}{hint}")


def build(what: str, text: str, table: Mapping[str, Callable[..., Any]], **fixed: Any) -> Any:
    """Make the entry of `table` that the short form names, with its options as keyword arguments.

    `fixed` arguments are given by the caller and are no options of the short form.

    Raises:
        ValueError: the name or an option is unknown, or a value does not fit.
    """
    name, options = parse(text)
    choose(what, name, table)
    return make(what, text, table[name], name, options, **fixed)


def make(
    what: str,
    text: str,
    factory: Callable[..., Any],
    name: str,
    options: Mapping[str, Option],
    also: Collection[str] = (),
    **fixed: Any,
) -> Any:
    """Call a factory with options that it has; `also` names options that exist and are dealt with elsewhere.

    Raises:
        ValueError: an option is unknown, or a value does not fit.
    """
    known = [option for option in inspect.signature(factory).parameters if option not in fixed]
    for option in options:
        if not (known or also):
            raise ValueError(f"{what} {name!r} has no options, got {option!r}")
        choose(f"option of {what} {name!r}", option, list(dict.fromkeys([*known, *also])))
    try:
        return factory(**fixed, **options)
    except (TypeError, ValueError) as error:
        # Most factories name themselves already.
        told = str(error)
        raise ValueError(told if told.startswith(f"{what} '{name}") else f"{what} {text!r}: {told}") from error
