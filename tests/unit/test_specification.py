"""The short form NAME:option=value: read back what was written, refuse what cannot be meant."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from hvd_gossip.specification import Option, build, choose, convert, parse

WORDS = st.from_regex(r"[a-z][a-z_0-9]*", fullmatch=True)
TEXTS = st.from_regex(r"[a-zA-Z/._-][a-zA-Z0-9/._=-]*", fullmatch=True).filter(lambda t: isinstance(convert(t), str))
VALUES = st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS)


def same(one: Any, other: Any) -> bool:
    """Equal and of the same type: True is no 1, 1 is no 1.0."""
    return type(one) is type(other) and one == other


@settings(deadline=None)
@given(WORDS, st.dictionaries(WORDS, VALUES, max_size=4))
@example("a", {"b": 10**400, "c": -0.0, "d": 5e-324, "e": "no=problem"})
def test_what_was_written_is_read_back(name: str, options: dict[str, Option]) -> None:
    text = f"{name}:" + ",".join(f"{key}={value}" for key, value in options.items())
    for spaced in (text, f"  {text} ", text.replace(",", " , ")):
        found_name, found = parse(spaced)
        assert found_name == name
        assert list(found) == list(options)
        assert all(same(found[key], value) for key, value in options.items())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-12", -12),
        ("1.0", 1.0),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("true", True),
        ("False", False),
        ("TRUE", True),
        ("yes", "yes"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("-Infinity", "-Infinity"),
        ("1e999", "1e999"),
        pytest.param("9" * 400, int("9" * 400), id="an integer beyond every float"),
        ("1.2.3", "1.2.3"),
        ("0x10", "0x10"),
        ("", ""),
    ],
)
def test_convert_takes_the_first_kind_that_fits(text: str, value: Option) -> None:
    assert same(convert(text), value)


@pytest.mark.parametrize(("text", "name"), [("ring", "ring"), (" ring ", "ring"), ("ring:", "ring")])
def test_a_name_alone_has_no_options(text: str, name: str) -> None:
    assert parse(text) == (name, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "got '': expected NAME or NAME:option=value,option=value"),
        ("   ", "expected NAME"),
        (":k=1", "got ':k=1': expected NAME"),
        ("ring:k", "got 'k' in 'ring:k': expected option=value"),
        ("ring:k=", "got 'k=' in 'ring:k=': expected option=value"),
        ("ring:=1", "got '=1' in 'ring:=1': expected option=value"),
        ("ring:k=1,k=2", "got option 'k' twice in 'ring:k=1,k=2': give it once"),
        ("ring:k=1, k=1", "got option 'k' twice"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse(text)


@settings(deadline=None)
@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        name, options = parse(text)
    except ValueError:
        return
    assert name
    assert all(key and isinstance(value, Option) for key, value in options.items())


def test_choose_lets_known_names_pass_and_names_the_nearest() -> None:
    choose("fruit", "pear", ("pear", "apple"))
    with pytest.raises(
        ValueError, match=r"^unknown fruit 'aple': expected one of apple, pear; did you mean 'apple'\?$"
    ):
        choose("fruit", "aple", ("pear", "apple"))
    with pytest.raises(ValueError, match=r"^unknown fruit 'zzz': expected one of apple, pear$"):
        choose("fruit", "zzz", ("pear", "apple"))


def lattice(n: int, k: int = 2, kind: str = "plain") -> tuple[int, int, str]:
    """A factory with a fixed argument, two options and a check."""
    if k > n:
        raise ValueError(f"got k = {k}, expected at most n = {n}")
    return n, k, kind


TABLE: dict[str, Callable[..., Any]] = {"lattice": lattice, "star": lambda n: ("star", n)}


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("lattice", (6, 2, "plain")),
        ("lattice:k=4", (6, 4, "plain")),
        ("lattice:kind=odd,k=3", (6, 3, "odd")),
        ("star", ("star", 6)),
    ],
)
def test_build_hands_options_to_the_factory(text: str, made: tuple) -> None:
    assert build("graph", text, TABLE, n=6) == made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("latice", "unknown graph 'latice': expected one of lattice, star; did you mean 'lattice'?"),
        ("lattice:kid=1", "unknown option of graph 'lattice' 'kid': expected one of k, kind; did you mean 'kind'?"),
        ("lattice:n=3", "unknown option of graph 'lattice' 'n': expected one of k, kind"),
        ("star:k=2", "graph 'star' has no options, got 'k'"),
        ("lattice:k=9", "graph 'lattice:k=9': got k = 9, expected at most n = 6"),
        ("lattice:k=many", "graph 'lattice:k=many': "),
    ],
)
def test_build_tells_what_does_not_fit(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        build("graph", text, TABLE, n=6)
