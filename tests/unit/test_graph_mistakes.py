"""Options of graphs that cannot be meant: each is refused with the graph, the option and what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hvd_gossip import graphs
from hvd_gossip.graphs import GRAPHS, ring, schedule, torus

INTEGERS = [
    ("ring_lattice", "k", 2),
    ("torus", "dimensions", 1),
    ("exponential", "base", 2),
    ("symmetric_exponential", "base", 2),
    ("random_regular", "d", 1),
    ("watts_strogatz", "k", 2),
    ("d_equistatic", "m", 1),
    ("u_equistatic", "m", 1),
    ("hierarchical", "groups", 1),
    ("alternating", "groups", 1),
    ("periodic", "every", 1),
]
SEEDED = {"random_regular": {"d": 4}, "watts_strogatz": {"k": 4}, "matcha": {"base": "ring"}}
SEEDED |= {name: {} for name in ("erdos_renyi", "d_equistatic", "u_equistatic", "od_equidyn", "ou_equidyn")}
SEEDED |= {name: {} for name in ("random_ring", "random_matching", "hierarchical", "alternating", "periodic")}


@pytest.mark.parametrize(("name", "option", "least"), INTEGERS)
@pytest.mark.parametrize("value", [2.5, 4.0, True, "four", -1, 0])
def test_integers_are_integers(name: str, option: str, least: int, value: Any) -> None:
    text = f"got {option} = {value!r}, expected an integer of at least {least}"
    with pytest.raises(ValueError, match=f"graph '{name}.*{re.escape(text)}"):
        GRAPHS[name](12, **{option: value})


@pytest.mark.parametrize("name", SEEDED)
@pytest.mark.parametrize("seed", [-1, 2.5, True, "one"])
@pytest.mark.parametrize("n", [1, 12])
def test_seeds_are_integers_from_0_for_every_n(name: str, seed: Any, n: int) -> None:
    if n == 1 and name in ("random_regular", "watts_strogatz"):
        return
    with pytest.raises(ValueError, match=re.escape(f"got seed = {seed!r}, expected an integer of at least 0")):
        GRAPHS[name](n, seed=seed, **SEEDED[name])


def test_every_graph_with_a_seed_is_tested_here() -> None:
    seeded = {name for name, factory in GRAPHS.items() if "seed" in factory.__code__.co_varnames}  # type: ignore[attr-defined]
    assert seeded == set(SEEDED)


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan"), float("inf"), True, "half"])
@pytest.mark.parametrize("factory", [graphs.erdos_renyi, lambda n, p: graphs.watts_strogatz(n, 4, p)])
def test_probabilities_are_from_0_to_1(factory: Callable[..., Any], p: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"got p = {p!r}, expected a probability ")):
        factory(8, p=p)


@pytest.mark.parametrize("m", [-5, 2.5, True])
@pytest.mark.parametrize("name", ["d_equistatic", "u_equistatic"])
def test_one_replica_excuses_no_mistake(name: str, m: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"got m = {m!r}, expected an integer of at least 1")):
        GRAPHS[name](1, m=m)


@pytest.mark.parametrize("value", ["no", "yes", "2", "0.5"])
def test_a_direction_is_true_or_false(value: str) -> None:
    """ "no" is a text, and texts count as true: the ring would lose a direction that was asked for."""
    with pytest.raises(ValueError, match=f"directed = '?{value}'?, expected true or false"):
        schedule(f"ring:directed={value}", 8)


@pytest.mark.parametrize("form", ["hierarchical:outer", "alternating:outer", "periodic:graph", "matcha:base"])
@pytest.mark.parametrize("value", ["5", "true", "0.5"])
def test_a_graph_within_a_graph_is_named_by_a_text(form: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"graph '{form}={value}'"):
        schedule(f"{form}={value}", 12)


@pytest.mark.parametrize("form", ["hierarchical:outer", "alternating:outer", "periodic:graph", "matcha:base"])
def test_an_unknown_graph_within_a_graph_gets_a_hint(form: str) -> None:
    with pytest.raises(ValueError, match=r"unknown graph 'rign': .*did you mean 'ring'\?"):
        schedule(f"{form}=rign", 12)


def test_a_function_for_the_outer_graph_has_to_keep_the_number_of_groups() -> None:
    with pytest.raises(ValueError, match="4 groups"):
        graphs.hierarchical(12, groups=4, outer=lambda groups: ring(groups + 1))


def test_one_length_is_a_shape() -> None:
    found = schedule("torus:shape=7", 7)(0)
    np.testing.assert_array_equal(found.matrix().toarray(), torus(7, shape="7").matrix().toarray())


@pytest.mark.parametrize("shape", [(3, -4), (-3, -4), (0, 12), (2.0, 6), "", "4x", "x", "3x4x", "three", True, 2.5, ()])
def test_lengths_of_a_torus_are_integers_from_1(shape: Any) -> None:
    text = f"got shape = {shape!r}, expected lengths of at least 1, for example 4x6"
    with pytest.raises(ValueError, match=re.escape(text)):
        torus(12, shape=shape)


@pytest.mark.timeout(20, method="signal")
def test_more_dimensions_than_any_number_near_by_has_factors_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="12 replicas make no torus of 64 dimensions"):
        torus(12, dimensions=64)


def test_a_prime_torus_names_the_choices() -> None:
    with pytest.raises(ValueError, match="97 replicas make no torus of 2 dimensions") as told:
        torus(97)
    for choice in ("96 or 98", "shape=1x97", "exponential", "ring_lattice", "base_k"):
        assert choice in str(told.value)


def test_choices_that_a_prime_torus_names_are_ones() -> None:
    for n in (2, 3, 5, 7, 11, 13, 97, 10_007):
        with pytest.raises(ValueError, match="make no torus") as told:
            torus(n)
        for other in re.findall(r"\d+", re.search(r"take ([\d or]+) replicas", str(told.value)).group(1)):  # type: ignore[union-attr]
            assert min(torus(int(other)).shape) > 1  # type: ignore[attr-defined]
        np.testing.assert_array_equal(torus(n, shape=f"1x{n}").degrees()[0], min(2, n - 1))
