"""Super-learners against the dense product with W (x) 11^T/g."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_neighbor import CHUNK, DTYPES, SIZES, stacked

from hvd_gossip.comm.hierarchical_mixer import HierarchicalMixer, ranks_of_node
from hvd_gossip.comm.neighbor_mixer import NeighborMixer
from hvd_gossip.graphs import schedule


def group_sizes(n: int) -> list[int]:
    return [g for g in (1, 2, 4) if n % g == 0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("graph", ["ring", "complete", "random_ring"])
def test_equals_the_dense_product(here, graph, dtype):
    tolerance = {torch.float64: 1e-14, torch.complex128: 1e-14, torch.bfloat16: 2**-7, torch.float16: 2**-10}
    for g in group_sizes(here.size):
        made = schedule(graph, here.size // g)
        mixer = HierarchicalMixer(here, made, g, piece_bytes=CHUNK)
        for round, size in enumerate(SIZES):
            values = stacked(here.size, size, dtype)
            buffer = values[here.rank].clone()
            mixer.begin(round, 0)
            mixer.mix([buffer])
            wide = torch.complex128 if values.is_complex() else torch.float64
            dense = np.kron(made(round, 0).matrix().toarray(), np.full((g, g), 1 / g))
            expected = torch.from_numpy(dense[here.rank]).to(wide) @ values.to(wide)
            scale = max(1.0, float(values.abs().max())) if size else 1.0
            error = (buffer.to(wide) - expected).abs().max() if size else 0
            assert error <= tolerance.get(dtype, 1e-6) * scale * (1 + 1e-3)
        mixer.free()


def test_groups_of_one_are_plain_gossip_bit_for_bit(here):
    buffers = [stacked(here.size, 1001, torch.float64)[here.rank].to(torch.float32) for _ in range(2)]
    mixers = [
        HierarchicalMixer(here, schedule("exponential", here.size), 1),
        NeighborMixer(here, schedule("exponential", here.size)),
    ]
    for mixer, buffer in zip(mixers, buffers, strict=True):
        mixer.begin(0, 0)
        mixer.mix([buffer])
    assert torch.equal(*buffers)
    assert mixers[0].traffic.bytes == mixers[1].traffic.bytes


def test_bytes_that_leave_each_rank(here):
    for g in group_sizes(here.size):
        mixer = HierarchicalMixer(here, schedule("ring", here.size // g), g)
        mixer.begin(0, 0)
        mixer.mix([torch.ones(1000 * g)])
        degree = min(2, here.size // g - 1)
        assert mixer.traffic.bytes == 4000 * (degree + 2 * (g - 1))
        mixer.free()


def test_the_mean_over_all_ranks_stays(here):
    for g in group_sizes(here.size):
        mixer = HierarchicalMixer(here, schedule("ring", here.size // g), g)
        buffer = stacked(here.size, 501, torch.float64)[here.rank].clone()
        before = here.comm.allreduce(buffer.numpy().copy())
        for round in range(5):
            mixer.begin(round, 0)
            mixer.mix([buffer])
        np.testing.assert_allclose(here.comm.allreduce(buffer.numpy().copy()), before, atol=1e-12)
        mixer.free()


@pytest.mark.parametrize("size", [0, -1, 3, 2.0, True])
def test_groups_that_do_not_come_out_even_are_refused(here, size):
    if size is True or (isinstance(size, int) and size > 0 and here.size % size == 0):
        size = here.size + 1
    with pytest.raises(ValueError, match=f"expected a divisor of {here.size}"):
        HierarchicalMixer(here, schedule("ring", 1), size)


def test_a_graph_for_ranks_instead_of_groups_is_refused(here):
    if here.size % 2:
        pytest.skip(f"{here.size} ranks make no groups of two")
    with pytest.raises(
        ValueError, match=f"made for {here.size} replicas, but this job has {here.size // 2} groups of 2"
    ):
        HierarchicalMixer(here, schedule("ring", here.size), 2)


def test_a_node_is_found(here):
    assert ranks_of_node(here) == here.local_size
