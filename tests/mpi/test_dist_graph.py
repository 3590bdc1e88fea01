"""Distributed graph communicators: neighbours, cache, check of both ends, no leak."""

from __future__ import annotations

import resource

import numpy as np
import pytest
from mpi4py import MPI

from hvd_gossip.comm.dist_graph import DistGraphs, build, edge_hash
from hvd_gossip.graphs import Circulant, MatrixTopology, Row, complete, exponential, ring


def star_outward(n):
    """Rank 0 is heard by all and hears nobody."""
    matrix = np.eye(n) / 2
    matrix[:, 0] += 0.5
    return MatrixTopology("star", matrix)


def isolated_last(n):
    """A ring of all ranks but the last."""
    matrix = np.eye(n)
    if n > 1:
        matrix[:-1, :-1] = ring(n - 1).matrix().toarray()
    return MatrixTopology("isolated", matrix)


def empty(n):
    return MatrixTopology("empty", np.eye(n))


GRAPHS = [ring, exponential, complete, star_outward, isolated_last, empty]


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_communicator_knows_the_neighbours_of_the_row(here, graph):
    topology = graph(here.size)
    row = topology.row(here.rank)
    with DistGraphs(here) as graphs:
        sources, destinations, weights = graphs[topology].Get_dist_neighbors()
        assert (list(sources), list(destinations)) == (row.sources.tolist(), row.destinations.tolist())
        assert weights is None


def test_a_graph_that_comes_back_is_built_once(here):
    with DistGraphs(here, limit=2) as graphs:
        first = graphs[ring(here.size)]
        assert graphs[ring(here.size)] is first
        assert graphs.built == 1


def test_only_as_many_as_the_limit_are_kept(here):
    shifts = [Circulant("shift", here.size, (shift,)) for shift in range(here.size)]
    with DistGraphs(here, limit=2) as graphs:
        for topology in (*shifts, *shifts):
            graphs[topology]
        # Up to two stay; with more, each has been dropped before it comes back.
        assert graphs.built == (here.size if here.size <= 2 else 2 * here.size)


def test_weights_alone_need_no_other_communicator(here):
    n = here.size
    lazy = MatrixTopology("lazy", (np.eye(n) + ring(n).matrix().toarray()) / 2)
    other = MatrixTopology("other", ring(n).matrix())
    with DistGraphs(here) as graphs:
        assert graphs[lazy] is graphs[other]


def test_five_thousand_rebuilds_leave_nothing_behind(here):
    row = ring(here.size).row(here.rank)
    for index in range(5000):
        build(here, row, "ring").Free()
        if index == 500:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 20_000, f"grew by {grown} KiB"


def test_the_store_frees_what_it_drops(here):
    with DistGraphs(here, limit=1) as graphs:
        for _ in range(1500):
            graphs[empty(here.size)]
            graphs[complete(here.size)]
        assert graphs.built == 3000


def one_sided(world):
    """Rank 0 sends to 1, 1 does not expect it."""
    none = np.array([], np.int64)
    to = np.array([1], np.int64) if world.rank == 0 else none
    return Row(1.0, none, np.array([]), to)


def test_an_edge_that_one_end_does_not_list_is_named_on_every_rank(here):
    if here.size == 1:
        with pytest.raises(ValueError, match="neighbour 1 is no rank of 1"):
            build(here, one_sided(here), "mine")
        return
    with pytest.raises(ValueError, match="edge 0 -> 1 is listed by rank 0 but not by rank 1"):
        build(here, one_sided(here), "mine")


def test_ranks_with_different_graphs_are_told(here):
    graph = complete if here.rank == 0 else exponential
    row = graph(here.size).row(here.rank)
    if here.size < 4:
        build(here, row, "mixed").Free()  # up to 3 ranks both graphs have the same edges
        return
    with pytest.raises(ValueError, match="every rank must be given the same graph"):
        build(here, row, "mixed")


def test_hashes_of_edges_do_not_collide():
    sources, destinations = (part.ravel() for part in np.meshgrid(np.arange(1000), 7 * np.arange(1000)))
    assert len(np.unique(edge_hash(sources, destinations))) == 1_000_000


def test_the_communicator_is_of_the_right_kind(here):
    with DistGraphs(here) as graphs:
        assert graphs[ring(here.size)].Get_topology() == MPI.DIST_GRAPH
