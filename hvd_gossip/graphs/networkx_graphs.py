"""Any networkx graph, or a file of edges, as a Topology."""

from __future__ import annotations

import warnings
from pathlib import Path

import networkx as nx
import numpy as np

from hvd_gossip import specification
from hvd_gossip.graphs import limits
from hvd_gossip.graphs.edge_list import with_rest
from hvd_gossip.graphs.matrix_topology import MatrixTopology
from hvd_gossip.graphs.registry import graph
from hvd_gossip.graphs.topology import Topology, boolean, replicas
from hvd_gossip.graphs.weights import RULES, reweight, weighted

GIVEN = "given"


def from_networkx(graph: nx.Graph, weights: str | None = None, name: str | None = None) -> Topology:
    r"""The Topology of a networkx graph; an edge j -> i means that i hears j, an undirected edge means both.

    With `weights="given"` an edge's attribute `weight` is W[i, j], a loop's is W[i, i], and where there is no loop the
    replica keeps what is missing to 1. With a rule, loops do not count and parallel edges count once.

    Args:
        graph: replicas are its nodes: in their own order where they are 0 … n - 1, in the graph's order otherwise.
        weights: "given" or a rule (default: given where every edge has a weight, else metropolis, or uniform for a
            directed graph).
        name: (default: the graph's own, or "networkx").

    Raises:
        ValueError: the graph is empty or not connected, given weights are negative, not finite or sum to more than 1,
            or a rule for symmetric graphs is asked for and the graph is directed.

    Warns:
        UserWarning: W is not doubly stochastic; says what the replicas will drift to.

    Example:
        >>> import networkx as nx
        >>> from_networkx(nx.petersen_graph()).row(0).sources.tolist()
        [1, 4, 5]
    """
    if not isinstance(graph, nx.Graph):
        raise ValueError(f"got {graph!r}: expected a networkx graph")
    name = name or graph.name or "networkx"
    n = replicas(name, graph.number_of_nodes())
    nodes = list(graph.nodes)
    order = range(n) if set(nodes) == set(range(n)) else nodes
    number = {node: rank for rank, node in enumerate(order)}
    edges = [(number[i], number[j], data.get("weight")) for j, i, data in graph.edges(data=True)]
    return from_edges(name, n, edges, graph.is_directed(), weights)


def from_edges(
    name: str, n: int, edges: list[tuple[int, int, float | None]], directed: bool, weights: str | None
) -> Topology:
    """The Topology of triples (i hears, j, weight or None), which stand for both directions unless `directed`."""
    if not directed:
        edges = edges + [(j, i, weight) for i, j, weight in edges if i != j]
    rows = np.array([i for i, _, _ in edges], dtype=np.int64)
    columns = np.array([j for _, j, _ in edges], dtype=np.int64)
    if weights is None and any(weight is not None for *_, weight in edges):
        weights = GIVEN
    if weights == GIVEN:
        topology = with_given_weights(name, n, rows, columns, [weight for *_, weight in edges])
    else:
        topology = with_rule(name, n, np.unique(np.stack([rows, columns], axis=1)[rows != columns], axis=0), weights)
    limits.require_agreement(topology)
    return limits.checked(topology)


def with_rule(name: str, n: int, pairs: np.ndarray, rule: str | None) -> Topology:
    """Directed edges (i hears, j), each listed once, with the weights of a rule or of the default one."""
    specification.choose("rule for weights", rule or "uniform", (*RULES, GIVEN))
    both = np.array_equal(pairs, np.unique(pairs[:, ::-1], axis=0))
    default = "metropolis" if both else "uniform"
    topology = MatrixTopology(name, weighted(n, pairs[:, 0], pairs[:, 1], default))
    if rule in (None, default):
        return topology
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the caller looks at the result itself
        return reweight(topology, str(rule))


def with_given_weights(
    name: str, n: int, rows: np.ndarray, columns: np.ndarray, weights: list[float | None]
) -> Topology:
    """W[i, j] as given; what is missing to 1 stays with the replica, unless it has a loop."""
    if any(weight is None for weight in weights):
        raise ValueError(
            f"graph {name!r}: got weights='given', but some edge has no weight; give a rule or all weights"
        )
    for i, j, weight in zip(rows, columns, weights, strict=True):
        if isinstance(weight, str):
            raise ValueError(f"graph {name!r}: edge {j} -> {i} has the weight {weight!r}, expected a finite number")
    values = np.array(weights, dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(values) | (values < 0))
    if len(wrong):
        edge = f"{columns[wrong[0]]} -> {rows[wrong[0]]}"
        raise ValueError(
            f"graph {name!r}: edge {edge} has the weight {values[wrong[0]]}, expected a finite number of at least 0"
        )
    sums = np.bincount(rows, weights=values, minlength=n)
    worst = int(np.argmax(sums))
    looped = np.zeros(n, dtype=bool)
    looped[rows[rows == columns]] = True
    short = np.flatnonzero(looped & (np.abs(sums - 1) > 1e-9))
    if sums[worst] <= 1 + 1e-9 and len(short):
        worst = int(short[0])
    if sums[worst] > 1 + 1e-9 or len(short):
        raise ValueError(
            f"graph {name!r}: the weights of what replica {worst} hears sum to {sums[worst]:.6g}, expected "
            f"{'exactly 1 with its loop' if looped[worst] else 'at most 1'}; if they are no mixing weights, give "
            "weights=metropolis"
        )
    # What is too much by rounding is taken off in proportion.
    return MatrixTopology(name, with_rest(n, rows, columns, values / np.maximum(sums, 1.0)[rows]))


@graph
def file(n: int, path: str, directed: bool = False, weights: str | None = None) -> Topology:
    r"""The graph of a text file with one edge on each line: `SOURCE DESTINATION [WEIGHT]`, ranks from 0 to n - 1.

    Columns are separated by blanks or commas, `#` starts a comment. An edge stands for both directions unless
    `directed`; weights are W[DESTINATION, SOURCE]. See `from_networkx` for weights.

    Args:
        n: number of replicas.
        path: the file.
        directed: an edge stands for SOURCE -> DESTINATION alone.
        weights: "given" or a rule (default: given where there is a third column, else metropolis, or uniform for a
            directed graph).

    Raises:
        ValueError: the file cannot be read, names other ranks, or is refused by `from_networkx`.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".edges") as edges:
        ...     print("0 1", "1 2", "2 0", sep="\n", file=edges, flush=True)
        ...     file(3, edges.name).row(0).sources.tolist()
        [1, 2]
    """
    name = specification.label("file", path=path, directed=directed or None, weights=weights)
    n, directed = replicas(name, n), boolean(name, "directed", directed)
    edges = once(name, read_edges(name, path), directed)
    if not edges and n > 1:
        raise ValueError(f"graph {name!r}: the file has no edges")
    outside = [rank for edge in edges for rank in edge[:2] if not 0 <= rank < n]
    if outside:
        raise ValueError(f"graph {name!r}: the file names rank {outside[0]}, but there are ranks 0 to {n - 1}")
    hears = [(destination, source, weight) for source, destination, weight in edges]
    return from_edges(name, n, hears, directed, weights)


def once(name: str, edges: list[tuple[int, int, float | None]], directed: bool) -> list[tuple[int, int, float | None]]:
    """Each edge once, whichever way round an undirected one is written.

    Raises:
        ValueError: an edge is given two weights.
    """
    found: dict[tuple[int, int], float | None] = {}
    for source, destination, weight in edges:
        key = (source, destination) if directed or source <= destination else (destination, source)
        if key in found and found[key] != weight and not (weight != weight and found[key] != found[key]):
            raise ValueError(f"graph {name!r}: edge {key[0]} - {key[1]} has the weights {found[key]} and {weight}")
        found[key] = weight
    return [(source, destination, weight) for (source, destination), weight in found.items()]


def read_edges(name: str, path: str) -> list[tuple[int, int, float | None]]:
    """Source, destination and weight of each line.

    Raises:
        ValueError: the file cannot be read, or a line is no edge.
    """
    try:
        place = Path(path).expanduser()
        if place.exists() and not place.is_file():
            # A pipe would give its edges to one rank alone, and might never end.
            raise OSError(f"{path} is no regular file")
        lines = place.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"graph {name!r}: the file cannot be read: {error}") from error
    edges: list[tuple[int, int, float | None]] = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        try:
            source, destination = int(words[0]), int(words[1])
            value = float(*words[2:]) if words[2:] else None
        except (ValueError, IndexError, TypeError) as error:
            raise ValueError(
                f"graph {name!r}: line {number} is {line.strip()!r}, expected SOURCE DESTINATION [WEIGHT]"
            ) from error
        edges.append((source, destination, value))
    return edges
