"""The weighted neighbourhood average against a dense float64 matrix product."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_dist_graph import GRAPHS

from hvd_gossip.comm import neighbor, staging
from hvd_gossip.comm.dist_graph import DistGraphs
from hvd_gossip.comm.neighbor import NeighborAverage, weighted_sum
from hvd_gossip.comm.neighbor_mixer import NeighborMixer
from hvd_gossip.graphs import MatrixTopology, Row, Static, exponential, ring, schedule

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.complex128]
CHUNK = 256
SIZES = [0, 1, 3, CHUNK // 4 - 1, CHUNK // 4, CHUNK // 4 + 1, 1000]


def stacked(n: int, size: int, dtype: torch.dtype) -> torch.Tensor:
    """What all ranks hold, [n, size], the same on every rank."""
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return torch.randn(n, size, generator=torch.Generator().manual_seed(7), dtype=wide).to(dtype)


def reference(topology, values: torch.Tensor, rank: int) -> torch.Tensor:
    """Row `rank` of W x in double precision."""
    wide = torch.complex128 if values.is_complex() else torch.float64
    weights = torch.from_numpy(topology.matrix().toarray()[rank]).to(wide)
    return weights @ values.to(wide)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("graph", GRAPHS)
def test_equals_the_dense_product(here, graph, dtype):
    topology = graph(here.size)
    row, average = topology.row(here.rank), NeighborAverage(CHUNK)
    tolerance = {torch.float64: 1e-14, torch.complex128: 1e-14, torch.bfloat16: 2**-8, torch.float16: 2**-11}
    with DistGraphs(here) as graphs:
        for size in SIZES:
            values = stacked(here.size, size, dtype)
            buffer = values[here.rank].clone()
            average(graphs[topology], row, buffer)
            expected = reference(topology, values, here.rank)
            scale = max(1.0, float(values.abs().max())) if size else 1.0
            error = (buffer.to(expected.dtype) - expected).abs().max() if size else 0
            assert error <= tolerance.get(dtype, 1e-6) * scale * (1 + 1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bits_are_summed_in_float32_and_rounded_once(here, dtype):
    topology = exponential(here.size)
    values = stacked(here.size, 4097, torch.float32).to(dtype)
    buffer = values[here.rank].clone()
    with DistGraphs(here) as graphs:
        NeighborAverage(1024)(graphs[topology], topology.row(here.rank), buffer)
    exact = reference(topology, values, here.rank)
    rounding = torch.finfo(dtype).eps / 2 * exact.abs() + torch.finfo(dtype).smallest_normal
    assert ((buffer.double() - exact).abs() <= rounding + 1e-6).all()


def test_the_sum_over_all_ranks_stays(here):
    topology = exponential(here.size)
    buffer = stacked(here.size, 501, torch.float64)[here.rank].clone()
    before = here.comm.allreduce(buffer.numpy().copy())
    with DistGraphs(here) as graphs:
        for _ in range(10):
            NeighborAverage(CHUNK)(graphs[topology], topology.row(here.rank), buffer)
    np.testing.assert_allclose(here.comm.allreduce(buffer.numpy().copy()), before, atol=1e-12)


def test_the_chunk_size_changes_no_bit(here):
    topology, results = ring(here.size), []
    with DistGraphs(here) as graphs:
        for chunk in (16, 52, 4096, 1 << 20):
            buffer = stacked(here.size, 1003, torch.float32)[here.rank].clone()
            NeighborAverage(chunk)(graphs[topology], topology.row(here.rank), buffer)
            results.append(buffer)
    assert all(torch.equal(results[0], other) for other in results[1:])


def test_weights_of_any_sign_whose_partial_sums_vanish(here):
    terms = stacked(3, 100, torch.float64)
    out, row = terms[0].clone(), Row(-1.0, np.array([1, 2]), np.array([1.0, 1.0]), np.array([1, 2]))
    weighted_sum(out, terms[0], row, [terms[1], terms[2]])
    assert torch.allclose(out, terms[1] + terms[2] - terms[0], atol=1e-14)


@pytest.mark.parametrize("weights", [(0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.5, 0.25, 0.25)])
def test_replicas_that_are_equal_stay_so_to_the_last_bit(here, weights):
    value = stacked(1, 100, torch.float32)[0]
    out, row = value.clone(), Row(weights[0], np.array([1, 2]), np.array(weights[1:]), np.array([1, 2]))
    weighted_sum(out, value, row, [value.clone(), value.clone()])
    assert torch.equal(out, value)


@pytest.mark.parametrize(
    "buffer", [torch.zeros(2, 2), torch.zeros(8)[::2], torch.zeros(3, dtype=torch.int64)], ids=["2d", "strided", "int"]
)
def test_what_cannot_be_averaged_is_refused_before_anything_is_sent(here, buffer):
    with DistGraphs(here) as graphs, pytest.raises(ValueError, match="expected a contiguous vector of floats"):
        NeighborAverage()(graphs[ring(here.size)], ring(here.size).row(here.rank), buffer)


def test_chunks_below_one_number_are_refused():
    with pytest.raises(ValueError, match="expected at least 16"):
        NeighborAverage(4)


def test_bytes_and_messages_are_counted_exactly(here):
    mixer = NeighborMixer(here, Static(ring(here.size)), chunk_bytes=100)
    mixer.begin(0, 0)
    mixer.mix([torch.zeros(250), torch.zeros(0), torch.zeros(25, dtype=torch.float64)])
    degree = len(ring(here.size).row(here.rank).destinations)
    assert mixer.traffic.bytes == degree * (1000 + 200)
    # 25 numbers fit into 100 bytes in single precision, 12 in double.
    assert mixer.traffic.messages == degree * (10 + 0 + 3)
    mixer.free()


def test_a_graph_for_another_number_of_ranks_is_refused(here):
    with pytest.raises(ValueError, match=f"made for {here.size + 1} replicas, but this job has {here.size} ranks"):
        NeighborMixer(here, Static(ring(here.size + 1)))


def test_a_graph_that_only_one_rank_was_given_is_refused(here):
    name = f"graph of rank {here.rank}"
    schedule = Static(MatrixTopology(name, ring(here.size).matrix()))
    if here.size == 1:
        NeighborMixer(here, schedule).free()
        return
    with pytest.raises(ValueError, match="the graph differs between ranks"):
        NeighborMixer(here, schedule)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("graph", ["ring", "exponential", "complete"])
def test_vectors_of_a_device_are_averaged_as_those_in_main_memory(here, graph):
    mixer = NeighborMixer(here, schedule(graph, here.size))
    host = torch.arange(300_001, dtype=torch.float32) + here.rank
    device = host.to("cuda")
    mixer.begin(0, 0)
    mixer.mix([host])
    mixer.mix([device])
    torch.testing.assert_close(device.cpu(), host, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("graph", ["ring", "exponential", "complete"])
def test_vectors_elsewhere_are_averaged_through_main_memory(here, graph, monkeypatch):
    """Main memory, taken for that of a device which MPI cannot read."""
    host = torch.arange(300_001, dtype=torch.float32) + here.rank
    device = host.clone()
    mixer = NeighborMixer(here, schedule(graph, here.size))
    mixer.begin(0, 0)
    mixer.mix([host])
    address = device.data_ptr()
    monkeypatch.setattr(staging, "elsewhere", lambda vector: vector.data_ptr() == address)
    monkeypatch.setattr(neighbor, "direct", lambda vector: vector.data_ptr() != address)
    mixer.mix([device])
    assert torch.equal(device, host)
