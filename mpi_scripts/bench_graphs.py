"""Time and memory of a rank's row, of the whole matrix and of the gap, against the number of replicas.

    python mpi_scripts/bench_graphs.py [--n 1000 100000] [--repeat 5] [GRAPH …]

A row is timed from nothing: the schedule is made and one rank's row of one round taken. Times are medians of --repeat
runs in ms; memory is the most that Python and numpy held at once, in MB, from a run of its own. Matrices and gaps are
left out where they would be too large: above --most-edges edges.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
import tracemalloc
from collections.abc import Callable
from datetime import date
from typing import Any

from hvd_gossip.graphs import Cayley, schedule
from hvd_gossip.graphs.consensus import consensus_rate

GRAPHS = (
    "ring",
    "ring_lattice:k=10",
    "torus",
    "exponential",
    "complete",
    "star",
    "binary_tree",
    "random_regular:d=4",
    "erdos_renyi",
    "watts_strogatz:k=4",
    "d_equistatic",
    "hierarchical:groups=10",
    "one_peer_exponential",
    "base_k:k=2",
    "random_ring",
    "random_matching",
    "ou_equidyn",
    "ada:k0=10,gamma=0.02",
    "hierarchical:weights=uniform",
    "erdos_renyi:weights=metropolis",
)
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
PLAIN = ("complete", "erdos_renyi", "erdos_renyi:weights=metropolis")
"""Their number of edges, or the work to find them, grows as n^2."""
SOLVED = 100_000
"""Eigensolvers are not measured for more replicas."""


def measure(action: Callable[[], Any], repeat: int) -> str:
    """Median time and peak memory of an action."""
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    tracemalloc.start()
    action()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return f"{1e3 * statistics.median(times):,.3g} / {peak / 1e6:,.3g}"


def row(graph: str, n: int, repeat: int, most: float) -> list[str]:
    """One line of the table."""
    topology = None if graph in PLAIN else schedule(graph, n)(1)
    edges = n * n if topology is None else n * (topology.row(n // 2).sources.size + 1)
    fits = edges <= most
    solvable = isinstance(topology, Cayley) or (fits and n <= SOLVED)
    once = max(1, repeat // 5) if n >= 100_000 else repeat

    def matrix() -> Any:
        return schedule(graph, n)(1).matrix()

    def gap() -> float:
        return consensus_rate(schedule(graph, n)).gap

    return [
        graph,
        f"{n:,}",
        measure(lambda: schedule(graph, n)(1).row(n // 2), repeat) if graph != "complete" or fits else "-",
        measure(matrix, once) if fits else "-",
        measure(gap, once) if solvable else "-",
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", default=GRAPHS, help="short forms (default: one of each kind)")
    parser.add_argument("--n", nargs="+", type=int, default=SIZES, help="numbers of replicas")
    parser.add_argument("--repeat", type=int, default=5, help="runs of which the median is taken")
    parser.add_argument("--most-edges", type=float, default=2e7, help="larger matrices and gaps are left out")
    options = parser.parse_args()
    print(f"{date.today()}, {platform.machine()}, Python {platform.python_version()}; ms / MB")
    layout = "{:<26}{:>10}{:>20}{:>20}{:>20}"
    print(layout.format("graph", "n", "row", "matrix", "gap"))
    for graph in options.graphs:
        for n in options.n:
            print(layout.format(*row(graph, n, options.repeat, options.most_edges)), flush=True)


if __name__ == "__main__":
    main()
