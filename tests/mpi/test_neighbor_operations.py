"""Neighbour operations under BlueFog's names, against dense products, and what they refuse."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from hvd_gossip import torch as hvd
from hvd_gossip.graphs import ring, schedule

GRAPHS = ["ring", "exponential", "complete", "star"]


def values(n: int, shape=(3, 5), dtype=torch.float64) -> torch.Tensor:
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(dtype)


def dense(matrix: np.ndarray, x: torch.Tensor) -> torch.Tensor:
    return torch.einsum("ij,j...->i...", torch.from_numpy(matrix), x)


@pytest.mark.filterwarnings("ignore:graph 'star'")
@pytest.mark.parametrize("graph", GRAPHS)
def test_it_is_the_dense_product_and_leaves_the_tensor_alone(here, graph):
    x = values(here.size)
    expected = dense(schedule(graph, here.size)(0, 0).matrix().toarray(), x)[here.rank]
    mine = x[here.rank].clone()
    result = hvd.neighbor_allreduce(mine, graph=graph)
    assert torch.equal(mine, x[here.rank])
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-14)
    handle = hvd.neighbor_allreduce_nonblocking(mine, graph=graph)
    assert torch.equal(hvd.synchronize(handle), result)
    assert hvd.poll(handle)
    same = hvd.neighbor_allreduce_(mine, graph=graph)
    assert same is mine
    assert torch.equal(mine, result)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3, 4)])
def test_any_shape_and_memory_layout(here, shape):
    x = values(here.size, shape)
    assert hvd.neighbor_allreduce(x[here.rank], graph="complete").shape == x[0].shape
    strided = values(here.size, (4, 6))[here.rank].T
    kept = strided.clone()
    assert torch.equal(
        hvd.neighbor_allreduce_(strided, graph="complete"), hvd.neighbor_allreduce(kept, graph="complete")
    )


def test_the_graph_that_was_set_is_used(here):
    hvd.set_topology("ring")
    assert hvd.load_topology().name == "ring"
    row = ring(here.size).row(here.rank)
    assert hvd.in_neighbor_ranks() == row.sources.tolist()
    assert hvd.out_neighbor_ranks() == row.destinations.tolist()
    x = values(here.size)
    torch.testing.assert_close(
        hvd.neighbor_allreduce(x[here.rank]), dense(ring(here.size).matrix().toarray(), x)[here.rank]
    )
    hvd.set_topology(nx.complete_graph(here.size))
    torch.testing.assert_close(hvd.neighbor_allreduce(x[here.rank]), x.mean(0))


def test_weights_of_the_receiver_over_the_graph(here):
    x = values(here.size)
    sources = ring(here.size).row(here.rank).sources.tolist()
    weights = {source: 0.1 * (source + 1) for source in sources}
    result = hvd.neighbor_allreduce(x[here.rank], graph="ring", self_weight=2.0, src_weights=weights)
    expected = 2.0 * x[here.rank] + sum((w * x[source] for source, w in weights.items()), torch.zeros(3, 5))
    torch.testing.assert_close(result, expected)


def test_edges_and_weights_of_both_ends_named_by_the_call(here):
    """A directed ring that changes its direction from call to call: whatever the graph."""
    x, n = values(here.size), here.size
    for call in range(6):
        step = 1 if call % 2 else -1
        to, of = (here.rank + step) % n, (here.rank - step) % n
        others = n > 1
        result = hvd.neighbor_allreduce(
            x[here.rank],
            self_weight=-1.0,
            src_weights={of: 0.5} if others else {},
            dst_weights={to: 3.0} if others else {},
        )
        expected = -x[here.rank] + (1.5 * x[of] if others else 0)
        torch.testing.assert_close(result, expected)


def test_push_sum_by_hand_finds_the_mean(here):
    """Column-stochastic weights, as methods for directed graphs use them."""
    x, n = values(here.size), here.size
    pair, hearers = torch.cat([x[here.rank].flatten(), torch.ones(1, dtype=torch.float64)]), [(here.rank + 1) % n]
    if n > 2 and here.rank == 0:
        hearers.append(2)
    heard = [] if n == 1 else sorted({(here.rank - 1) % n} | ({0} if n > 2 and here.rank == 2 else set()))
    hearers = [] if n == 1 else hearers
    share = 1 / (1 + len(hearers))
    for _ in range(200):
        pair = hvd.neighbor_allreduce(
            pair, self_weight=share, src_weights=dict.fromkeys(heard, 1.0), dst_weights=dict.fromkeys(hearers, share)
        )
    torch.testing.assert_close(pair[:-1] / pair[-1], x.mean(0).flatten())


def test_many_at_a_time_keep_their_order(here):
    x = values(here.size)
    handles = [hvd.neighbor_allreduce_nonblocking(x[here.rank] * k, graph=g) for k, g in enumerate(GRAPHS[:3] * 4)]
    blocking = hvd.neighbor_allreduce(x[here.rank], graph="ring")
    results = [hvd.synchronize(handle) for handle in reversed(handles)][::-1]
    for k, (result, graph) in enumerate(zip(results, GRAPHS[:3] * 4, strict=True)):
        expected = dense(schedule(graph, here.size)(0, 0).matrix().toarray(), k * x)[here.rank]
        torch.testing.assert_close(result, expected)
    torch.testing.assert_close(blocking, dense(ring(here.size).matrix().toarray(), x)[here.rank])


def test_a_gather_is_in_the_order_of_ranks_and_may_have_different_lengths(here):
    mine = torch.full((here.rank + 1, 2), here.rank, dtype=torch.int32)
    sources = ring(here.size).row(here.rank).sources.tolist()
    expected = torch.cat([torch.full((source + 1, 2), source, dtype=torch.int32) for source in sources] or [mine[:0]])
    assert torch.equal(hvd.neighbor_allgather(mine, graph="ring"), expected)
    assert torch.equal(hvd.synchronize(hvd.neighbor_allgather_nonblocking(mine, graph="ring")), expected)
    empty = hvd.neighbor_allgather(torch.zeros(0 if here.rank == 0 else 2), graph="complete")
    assert empty.shape == (2 * (here.size - 1) - (2 if here.rank else 0),)


def test_pairs_need_nobody_else(here):
    x, other = values(here.size), here.rank ^ 1
    if other >= here.size:
        return
    for _ in range(3 if here.rank < 2 else 1):  # the first pair meets more often than the second
        torch.testing.assert_close(hvd.pair_gossip(x[here.rank], other), (x[here.rank] + x[other]) / 2)
    result = hvd.pair_gossip(x[here.rank], other, self_weight=0.2, pair_weight=0.9)
    torch.testing.assert_close(result, 0.2 * x[here.rank] + 0.9 * x[other])
    mine = x[here.rank].clone()
    assert hvd.pair_gossip_(mine, other) is mine
    assert torch.equal(hvd.synchronize(hvd.pair_gossip_nonblocking(x[here.rank], other)), mine)


def test_a_graph_cannot_change_under_an_operation(here):
    handle = hvd.neighbor_allreduce_nonblocking(torch.ones(3), graph="ring")
    with pytest.raises(ValueError, match="1 operations are under way"):
        hvd.set_topology("complete")
    hvd.synchronize(handle)
    hvd.set_topology("complete")


def test_an_edge_that_one_end_does_not_name_is_told_on_every_rank(here):
    if here.size == 1:
        pytest.skip("one rank has no edges")
    with pytest.raises(ValueError, match="edge 0 -> 1 is listed by rank 0 but not by rank 1"):
        hvd.neighbor_allreduce(
            torch.ones(2), self_weight=1.0, src_weights={}, dst_weights={1: 1.0} if here.rank == 0 else {}
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"self_weight": 1.0}, "give both"),
        ({"src_weights": {}}, "give both"),
        ({"dst_weights": {}}, "needs self_weight and src_weights too"),
        ({"self_weight": 1.0, "src_weights": {99: 1.0}}, "src_weights names rank 99"),
        ({"self_weight": 1.0, "src_weights": {}, "dst_weights": {99: 1.0}}, "dst_weights names rank 99"),
        ({"graph": "rng"}, "did you mean 'ring'"),
        ({"graph": "random_ring"}, "changes with the round"),
    ],
)
def test_mistakes_are_told(here, options, message):
    with pytest.raises(ValueError, match=message):
        hvd.neighbor_allreduce(torch.ones(2), **options)
    assert here.comm.allreduce(1) == here.size


def test_other_mistakes_are_told(here):
    with pytest.raises(ValueError, match="expected a tensor of floating-point or complex numbers"):
        hvd.neighbor_allreduce(torch.ones(2, dtype=torch.int64), graph="ring")
    with pytest.raises(ValueError, match="unknown option 'grph'"):
        hvd.neighbor_allreduce_(torch.ones(2), grph="ring")
    with pytest.raises(ValueError, match=f"got target_rank = {here.rank} on rank {here.rank}"):
        hvd.pair_gossip(torch.ones(2), here.rank)
    with pytest.raises(ValueError, match="first dimension"):
        hvd.neighbor_allgather(torch.tensor(1.0))
