"""Laws that every schedule keeps: pure functions of seed, round and epoch, with honest period, degree and sums."""

from __future__ import annotations

import hashlib
import inspect
import os
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hvd_gossip.graphs import GRAPHS, Varying, reweight, schedule
from hvd_gossip.graphs.registry import static

PERIODIC = [
    "base_k:k=2",
    "simple_base:k=2",
    "hyper_hypercube",
    "one_peer_exponential",
    "alternating",
    "alternating:groups=6,outer=ring",
    "periodic:every=3,graph=ring",
]
RANDOM = ["random_ring", "random_matching", "od_equidyn", "ou_equidyn", "matcha:base=binary_tree,budget=0.4"]
ADA = ["ada:k0=6,gamma=0.5", "ada:k0=6,gamma=0.5,by=round"]
REWEIGHTED = ["random_ring:weights=lazy", "ou_equidyn:weights=metropolis", "base_k:k=2,weights=lazy"]
ALL = PERIODIC + RANDOM + ADA + REWEIGHTED

each = pytest.mark.parametrize("text", ALL)
each_random = pytest.mark.parametrize("text", RANDOM)
N = 12
CALLS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), min_size=2, max_size=8)


def W(made: Any, round: int, epoch: int = 0) -> np.ndarray:
    return made(round, epoch).matrix().toarray()


@cache
def alone(text: str, round: int, epoch: int) -> bytes:
    """What a fresh schedule answers when it is asked nothing else."""
    return W(schedule(text, N, seed=3), round, epoch).tobytes()


def others(matrix: np.ndarray) -> int:
    """The most replicas that one hears, or that hear it."""
    edges = (matrix != 0) & ~np.eye(len(matrix), dtype=bool)
    return int(max(edges.sum(axis=0).max(), edges.sum(axis=1).max()))


def test_all_schedules_of_the_table_are_looked_at() -> None:
    """Graphs with no option that must be given; those that ask for one are static."""
    names = set()
    for name, factory in GRAPHS.items():
        parameters = inspect.signature(factory).parameters.values()
        if not any(one.default is one.empty and one.name != "n" for one in parameters):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = factory(16)
            names |= {name} if isinstance(made, Varying) else set()
    assert names == {text.partition(":")[0] for text in ALL}


@each
@settings(deadline=None, max_examples=20)
@given(calls=CALLS)
def test_a_round_is_the_same_in_any_order_and_from_any_object(text: str, calls: list[tuple[int, int]]) -> None:
    made = schedule(text, N, seed=3)
    for round, epoch in [*calls, *calls[::-1]]:
        assert W(made, round, epoch).tobytes() == alone(text, round, epoch)


@pytest.mark.parametrize("text", [*RANDOM, *REWEIGHTED])
def test_rounds_are_the_same_in_another_process(text: str) -> None:
    assert digests()[text] == digest(text)


def digest(text: str) -> str:
    made = schedule(text, N, seed=3)
    return hashlib.sha256(b"".join(W(made, round, 1).tobytes() for round in range(10))).hexdigest()


@cache
def digests() -> dict[str, str]:
    """The digests of a process of its own whose hashes of texts differ."""
    code = "import sys; from test_schedules_library import *; [print(text, digest(text)) for text in sys.argv[1:]]"
    here = str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join([here, *sys.path])}
    command = [sys.executable, "-c", code, *RANDOM, *REWEIGHTED]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines())  # type: ignore[misc]


@each_random
def test_seeds_and_rounds_tell_graphs_apart(text: str) -> None:
    one, same, other = (schedule(text, N, seed) for seed in (1, 1, 2))
    rounds = range(20)
    assert all(W(one, t).tobytes() == W(same, t).tobytes() for t in rounds)
    assert any(W(one, t).tobytes() != W(other, t).tobytes() for t in rounds)
    assert len({W(one, t).tobytes() for t in rounds}) > 3
    # No seed is another one, some rounds later.
    assert all(any(W(one, t + late).tobytes() != W(other, t).tobytes() for t in rounds) for late in range(10))


@each_random
def test_the_epoch_changes_nothing(text: str) -> None:
    made = schedule(text, N)
    assert all(W(made, t, 0).tobytes() == W(made, t, 99).tobytes() for t in range(8))


@each_random
def test_a_seed_of_the_short_form_goes_before_the_given_one(text: str) -> None:
    with_seed = f"{text}{',' if ':' in text else ':'}seed=5"
    made, given_seed = schedule(with_seed, N, seed=1), schedule(text, N, seed=5)
    assert made.name == given_seed.name
    assert "seed=5" in made.name
    assert all(W(made, t).tobytes() == W(given_seed, t).tobytes() for t in range(5))


@each_random
@pytest.mark.parametrize("seed", [-1, 1.5, True, "a"])
def test_a_bad_seed_is_told(text: str, seed: Any) -> None:
    name, _, options = text.partition(":")
    base = {"base": "binary_tree"} if options else {}
    with pytest.raises(ValueError, match=f"got seed = {seed!r}, expected an integer of at least 0"):
        GRAPHS[name](N, seed=seed, **base)


@pytest.mark.parametrize("text", PERIODIC)
@pytest.mark.parametrize("n", [1, 2, 6, 12])
def test_graphs_come_round_again_after_a_period(text: str, n: int) -> None:
    if "groups=6" in text and n % 6:
        return
    made = schedule(text, n)
    assert made.period is not None
    period = made.period
    for t in range(period):
        for later in (t + period, t + 7 * period):
            assert W(made, t).tobytes() == W(made, later, epoch=5).tobytes()
    assert n < 12 or period == 1 or any(W(made, 0).tobytes() != W(made, t).tobytes() for t in range(period))


@pytest.mark.parametrize("text", [*RANDOM, *ADA])
def test_what_does_not_come_round_again_says_so(text: str) -> None:
    made: Any = schedule(text, N)
    assert made.period is None
    assert made.random == (text in RANDOM)


@each
@pytest.mark.parametrize("n", [1, 2, 3, 6, 12])
def test_the_degree_is_the_largest_of_all_rounds(text: str, n: int) -> None:
    if "groups=6" in text and n % 6:
        return
    made: Any = schedule(text, n)
    rounds = range(made.period or 60)
    assert max(others(W(made, t)) for t in rounds) == made.degree


@each
@pytest.mark.parametrize("n", [1, 2, 3, 7, 12])
def test_every_round_is_doubly_stochastic_and_honest_about_symmetry(text: str, n: int) -> None:
    if "groups=6" in text and n % 6:
        return
    made = schedule(text, n)
    for t in range(12):
        topology, matrix = made(t, epoch=t), W(made, t, t)
        assert topology.n == n
        assert (matrix >= 0).all()
        np.testing.assert_allclose(matrix.sum(axis=0), 1, atol=1e-13)
        np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-13)
        assert topology.doubly_stochastic
        assert topology.symmetric == (np.abs(matrix - matrix.T).max() <= 1e-12)


@each
@settings(deadline=None, max_examples=15)
@given(n=st.sampled_from([1, 2, 3, 6, 12, 18]), t=st.integers(0, 200))
def test_rows_agree_with_the_matrix(text: str, n: int, t: int) -> None:
    if "groups=6" in text and n % 6:
        return
    topology = schedule(text, n)(t)
    matrix = topology.matrix().toarray()
    hears, heard_by = topology.degrees()
    for rank in range(n):
        row, away = topology.row(rank), np.arange(n) != rank
        np.testing.assert_array_equal(row.sources, np.flatnonzero((matrix[rank] != 0) & away))
        np.testing.assert_array_equal(row.destinations, np.flatnonzero((matrix[:, rank] != 0) & away))
        np.testing.assert_allclose(row.source_weights, matrix[rank, row.sources], rtol=1e-15)
        assert row.self_weight == pytest.approx(matrix[rank, rank], abs=1e-15)
        assert (hears[rank], heard_by[rank]) == (len(row.sources), len(row.destinations))


@pytest.mark.parametrize("text", [*PERIODIC, *RANDOM])
def test_replicas_are_connected_over_a_period(text: str) -> None:
    made = schedule(text, N)
    union = nx.Graph()
    union.add_nodes_from(range(N))
    for t in range(made.period or 40):
        union.add_edges_from(made(t).to_networkx().edges())
    assert nx.is_connected(union)


@pytest.mark.parametrize(("groups", "outer"), [(None, "exponential"), (6, "ring"), (2, "complete"), (12, "ring")])
def test_alternating_is_the_mean_of_each_group_and_then_the_outer_graph(groups: int | None, outer: str) -> None:
    text = f"alternating:outer={outer}" + (f",groups={groups}" if groups else "")
    made, count = schedule(text, N), groups or 4
    size, between = N // count, static(outer, count).matrix().toarray()
    inside = np.kron(np.eye(count), np.full((size, size), 1 / size))
    np.testing.assert_allclose(W(made, 0), inside, atol=1e-15)
    np.testing.assert_allclose(W(made, 1), np.kron(between, np.eye(size)), atol=1e-15)
    np.testing.assert_allclose(W(made, 1) @ W(made, 0), np.kron(between, np.full((size, size), 1 / size)), atol=1e-15)
    assert made.period == 2


def test_alternating_has_the_exponential_graph_outside_by_default() -> None:
    plain, explicit = schedule("alternating", 36), schedule("alternating:groups=6,outer=exponential", 36)
    assert all(W(plain, t).tobytes() == W(explicit, t).tobytes() for t in (0, 1))


@pytest.mark.parametrize("every", [1, 2, 3, 10])
def test_periodic_averages_in_every_so_many_rounds(every: int) -> None:
    made = schedule(f"periodic:every={every},graph=torus", N)
    for t in range(2 * every):
        expected = np.full((N, N), 1 / N) if (t + 1) % every == 0 else static("torus", N).matrix().toarray()
        np.testing.assert_allclose(W(made, t), expected, atol=1e-15)
    assert made.period == every


@pytest.mark.parametrize(
    "text", ["random_ring", "random_matching", "base_k:k=2", "periodic:graph=ring", "ada:k0=6,gamma=1"]
)
@pytest.mark.parametrize("rule", ["lazy", "metropolis", "max_degree", "1/n"])
def test_a_rule_changes_the_weights_of_every_round_and_nothing_else(text: str, rule: str) -> None:
    plain: Any = schedule(text, N)
    made: Any = schedule(f"{text}{',' if ':' in text else ':'}weights={rule}", N)
    assert (made.n, made.period, made.degree, made.random) == (plain.n, plain.period, plain.degree, plain.random)
    assert f"weights={rule}" in made.name
    assert made.second_moment is None
    for t in range(11):
        expected = reweight(plain(t, epoch=t), rule).matrix().toarray()
        np.testing.assert_allclose(W(made, t, t), expected, atol=1e-15)
        np.testing.assert_array_equal(W(made, t, t) + np.eye(N) != 0, W(plain, t, t) + np.eye(N) != 0)


def test_a_rule_that_does_not_fit_is_told_at_once() -> None:
    with pytest.raises(ValueError, match="unknown rule for weights 'metropolos'.*did you mean 'metropolis'"):
        schedule("random_ring:weights=metropolos", N)
    with pytest.raises(ValueError, match="weights 'metropolis' need a symmetric graph, but .* is directed"):
        schedule("od_equidyn:weights=metropolis", N)
