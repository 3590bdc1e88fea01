"""Graphs of networkx and of files: which edges and weights they mean, and what is refused."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from hvd_gossip.graphs import from_networkx, reweight, schedule


def dense(graph: nx.Graph, **options: Any) -> np.ndarray:
    return from_networkx(graph, **options).matrix().toarray()


def test_an_undirected_graph_gets_metropolis_weights() -> None:
    W = dense(nx.path_graph(3))
    np.testing.assert_allclose(W, np.array([[2, 1, 0], [1, 1, 1], [0, 1, 2]]) / 3)


def test_a_directed_edge_goes_from_the_heard_to_the_hearing() -> None:
    W = dense(nx.DiGraph([(0, 1), (1, 2), (2, 0)]))
    np.testing.assert_allclose(W, np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1]]) / 2)


def test_a_directed_graph_with_both_directions_everywhere_is_undirected() -> None:
    np.testing.assert_allclose(dense(nx.path_graph(4).to_directed()), dense(nx.path_graph(4)))


def test_nodes_of_any_kind_are_numbered_in_the_order_of_the_graph() -> None:
    named = nx.Graph([("b", "a"), ("a", "c")])
    np.testing.assert_allclose(dense(named), dense(nx.Graph([(0, 1), (1, 2)])))
    turned = nx.Graph()
    turned.add_nodes_from([2, 1, 0])
    turned.add_edges_from([(0, 1), (1, 2)])
    np.testing.assert_allclose(dense(turned), dense(nx.path_graph(3)))


def test_loops_and_parallel_edges_do_not_count_for_rules() -> None:
    many = nx.MultiGraph([(0, 1), (0, 1), (1, 2), (2, 2)])
    np.testing.assert_allclose(dense(many), dense(nx.path_graph(3)))


def test_weights_of_all_edges_are_taken_as_given() -> None:
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([(0, 1, 0.25), (1, 0, 0.25)])
    np.testing.assert_allclose(dense(graph), [[0.75, 0.25], [0.25, 0.75]])
    graph.add_edge(0, 0, weight=0.75)
    graph.add_edge(1, 1, weight=0.75)
    np.testing.assert_allclose(dense(graph), [[0.75, 0.25], [0.25, 0.75]])


def test_a_rule_goes_before_weights_of_the_edges() -> None:
    graph = nx.Graph()
    graph.add_weighted_edges_from([(0, 1, 17.0), (1, 2, 4.0)])
    np.testing.assert_allclose(dense(graph, weights="metropolis"), dense(nx.path_graph(3)))


def weighted(*edges: tuple[int, int, float]) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(edges)
    return graph


@pytest.mark.parametrize(
    ("graph", "options", "text"),
    [
        (nx.Graph(), {}, "graph 'networkx': got n = 0"),
        (nx.empty_graph(3), {}, "graph 'networkx' is not connected: replicas 0 and 1 never hear of each other"),
        (nx.Graph([(0, 1), (2, 3)]), {}, "is not connected: replicas 0 and 2"),
        (weighted((0, 1, -0.1), (1, 0, 0.1)), {}, "edge 0 -> 1 has the weight -0.1, expected a finite number"),
        (weighted((0, 1, float("nan")), (1, 0, 0.1)), {}, "edge 0 -> 1 has the weight nan"),
        (weighted((0, 1, 17), (1, 0, 0.5)), {}, "what replica 1 hears sum to 17, expected at most 1; if they are no"),
        (
            weighted((0, 1, 0.5), (1, 0, 0.5), (1, 1, 0.2)),
            {},
            "replica 1 hears sum to 0.7, expected exactly 1",
        ),
        (nx.path_graph(3), {"weights": "given"}, "got weights='given', but some edge has no weight"),
        (nx.path_graph(3), {"weights": "metropolys"}, "unknown rule for weights 'metropolys'"),
        (nx.DiGraph([(0, 1), (1, 2), (2, 0)]), {"weights": "metropolis"}, "is directed: replica 0 hears 2"),
        (weighted((0, 1, float("inf")), (1, 0, 0.1)), {}, "edge 0 -> 1 has the weight inf"),
        (weighted((0, 1, 1.001), (1, 0, 0.5)), {}, "what replica 1 hears sum to 1.001, expected at most 1"),
        (weighted((0, 1, 0.0), (1, 0, 0.0)), {}, "is not connected: replicas 0 and 1"),
        (nx.Graph([(0, 1, {"weight": "much"})]), {}, "graph 'networkx': edge 0 -> 1 has the weight 'much'"),
        ([(0, 1)], {}, "expected a networkx graph"),
    ],
)
def test_what_is_no_mixing_matrix_is_refused(graph: nx.Graph, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        from_networkx(graph, **options)


def test_parallel_weights_add_up() -> None:
    many = nx.MultiDiGraph()
    many.add_weighted_edges_from([(0, 1, 0.25), (0, 1, 0.25), (1, 0, 0.5)])
    np.testing.assert_allclose(dense(many), [[0.5, 0.5], [0.5, 0.5]])


@pytest.mark.parametrize("weights", [None, "given", "metropolis", "uniform", "lazy"])
def test_one_node_is_one_replica(weights: str | None) -> None:
    np.testing.assert_array_equal(dense(nx.empty_graph(1), weights=weights), [[1]])
    np.testing.assert_array_equal(dense(nx.Graph([("a", "a", {"weight": 1.0})]), weights=weights), [[1]])


def test_weights_that_were_rounded_to_ten_digits_are_taken() -> None:
    """What is too much by rounding is no negative weight of anybody's."""
    thirds = nx.complete_graph(4).to_directed()
    nx.set_edge_attributes(thirds, 0.3333333334, "weight")
    W = dense(thirds)
    np.testing.assert_allclose(W, (np.ones((4, 4)) - np.eye(4)) / 3, atol=1e-9)
    np.testing.assert_allclose(W.sum(axis=1), 1, atol=1e-13)


@pytest.mark.parametrize("weights", ["uniform", "metropolis", "max_degree", "1/n", "lazy"])
def test_rules_are_those_of_reweight(weights: str) -> None:
    graph = nx.connected_watts_strogatz_graph(9, 4, 0.5, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = reweight(from_networkx(graph), weights).matrix().toarray()
        np.testing.assert_allclose(dense(graph, weights=weights), expected, atol=1e-15)


def test_a_graph_tells_its_own_name() -> None:
    assert from_networkx(nx.path_graph(3)).name == "networkx"
    assert from_networkx(nx.Graph([(0, 1)], name="mine")).name == "mine"
    assert from_networkx(nx.Graph([(0, 1)], name="mine"), name="ours").name == "ours"


def test_an_unbalanced_directed_graph_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="W is not doubly stochastic"):
        found = from_networkx(nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]))
    assert not found.doubly_stochastic


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """A file of these lines, as a short form."""

    def write(*lines: str) -> str:
        (tmp_path / "my graph.edges").write_text("\n".join(lines))
        return f"file:{tmp_path / 'my graph.edges'}"

    return write


@pytest.mark.parametrize(
    "lines",
    [
        ("0 1", "1 2"),
        ("# a path", "0,1", "", "1, 2  # the end"),
        ("0\t1", "2 1"),
        ("0 1", "1 2", "2 1", "2 2"),
    ],
)
def test_a_file_holds_one_edge_a_line(written: Any, lines: tuple[str, ...]) -> None:
    np.testing.assert_allclose(schedule(written(*lines), 3)(0).matrix().toarray(), dense(nx.path_graph(3)))


def test_a_third_column_is_the_weight(written: Any) -> None:
    found = schedule(written("0 1 0.25"), 2)(0)
    np.testing.assert_allclose(found.matrix().toarray(), [[0.75, 0.25], [0.25, 0.75]])


def test_a_file_may_be_directed_and_weighted_by_a_rule(written: Any) -> None:
    path = written("0 1", "1 2", "2 0").removeprefix("file:")
    found = schedule(f"file:path={path},directed=true", 3)(0)
    np.testing.assert_allclose(found.matrix().toarray(), dense(nx.DiGraph([(0, 1), (1, 2), (2, 0)])))
    lazy = schedule(f"file:path={path},weights=lazy", 3)(0)
    np.testing.assert_allclose(lazy.matrix().toarray(), (dense(nx.cycle_graph(3)) + np.eye(3)) / 2)


def test_an_edge_written_in_both_directions_is_one_edge(written: Any) -> None:
    """Each line stands for both directions: the second tells the same once more, and adds nothing."""
    found = schedule(written("0 1 0.25", "1 0 0.25"), 2)(0)
    np.testing.assert_allclose(found.matrix().toarray(), [[0.75, 0.25], [0.25, 0.75]])


@pytest.mark.parametrize("second", ["1 0 0.5", "0 1 0.5"])
def test_an_edge_with_two_weights_is_refused(written: Any, second: str) -> None:
    with pytest.raises(ValueError, match="weight"):
        schedule(written("0 1 0.25", second), 2)


def test_weights_on_some_lines_alone_are_not_passed_over_in_silence(written: Any) -> None:
    with pytest.raises(ValueError, match="some edge has no weight"):
        schedule(written("0 1 0.25", "1 2"), 3)


@pytest.mark.parametrize(
    ("lines", "n", "text"),
    [
        (("0 1", "1"), 2, "line 2 is '1', expected SOURCE DESTINATION [WEIGHT]"),
        (("0 one",), 2, "line 1 is '0 one', expected SOURCE DESTINATION [WEIGHT]"),
        (("0 1 0.5 x",), 2, "line 1 is '0 1 0.5 x', expected SOURCE DESTINATION [WEIGHT]"),
        (("0 1.0",), 2, "line 1 is '0 1.0', expected SOURCE DESTINATION [WEIGHT]"),
        (("0 1 nan",), 2, "edge 0 -> 1 has the weight nan, expected a finite number of at least 0"),
        (("0 1 -0.5",), 2, "edge 0 -> 1 has the weight -0.5, expected a finite number of at least 0"),
        (("0 1", "1 5"), 3, "the file names rank 5, but there are ranks 0 to 2"),
        (("0 1", "-1 1"), 3, "the file names rank -1, but there are ranks 0 to 2"),
        (("0 1",), 3, "is not connected: replicas 0 and 2 never hear of each other"),
        ((), 2, "the file has no edges"),
        (("0 1 0.9", "1 2 0.9"), 3, "what replica 1 hears sum to 1.8, expected at most 1"),
    ],
)
def test_files_that_are_no_graph_are_refused(written: Any, lines: tuple[str, ...], n: int, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        schedule(written(*lines), n)


def test_a_missing_or_binary_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("nowhere", "binary"):
        with pytest.raises(ValueError, match="the file cannot be read"):
            schedule(f"file:{tmp_path / name}", 2)


def test_a_byte_order_mark_is_no_edge(tmp_path: Path) -> None:
    path = tmp_path / "marked.edges"
    path.write_bytes(b"\xef\xbb\xbf0 1\r\n1 2\r\n")
    assert schedule(f"file:{path}", 3)(0).row(1).sources.tolist() == [0, 2]
