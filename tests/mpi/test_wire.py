"""Values that neighbours see rounded: the simulator's product, the mean, and replicas that agree."""

from __future__ import annotations

import pytest
import torch
from test_neighbor import stacked

from hvd_gossip.comm.fusion import FlatParameters
from hvd_gossip.comm.neighbor_mixer import NeighborMixer
from hvd_gossip.graphs import schedule
from hvd_gossip.matrix_mixer import MatrixMixer

GRAPHS = ["ring", "exponential", "complete", "random_ring"]
WIRES = [torch.bfloat16, torch.float16]


def mixed(here, graph, values, wire, settled, rounds=3):
    """This rank's row after some rounds, and the bytes it sent."""
    mixer = NeighborMixer(here, schedule(graph, here.size), wire, chunk_bytes=600)
    flat = FlatParameters([torch.nn.Parameter(values[here.rank].clone())])
    if settled:
        mixer.settle(flat)
    for round in range(rounds):
        mixer.begin(round, 0)
        mixer.mix(flat.buffers)
    result, sent = flat.parameters[0].detach().clone(), mixer.traffic.bytes
    mixer.free()
    return result, sent


@pytest.mark.parametrize("wire", WIRES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
@pytest.mark.parametrize("graph", GRAPHS)
def test_mpi_is_the_simulator_on_either_path(here, graph, dtype, wire):
    values = stacked(here.size, 1001, dtype)
    simulated, simulator = values.clone(), MatrixMixer(schedule(graph, here.size), wire)
    if dtype.is_complex:
        simulated = torch.view_as_real(simulated).flatten(1)
    for round in range(3):
        simulator.begin(round, 0)
        simulator.mix([simulated])
    shared, _ = mixed(here, graph, values, wire, True)
    messages, _ = mixed(here, graph, values, wire, False)
    assert torch.equal(shared, messages)
    found = torch.view_as_real(shared).flatten() if dtype.is_complex else shared
    # A last bit that differs before a rounding may differ by the wire's own step after it.
    close = (found - simulated[here.rank]).abs() <= 1e-5
    assert close.double().mean() > 0.99
    assert (found - simulated[here.rank]).abs().max() <= 8 * torch.finfo(wire).eps


@pytest.mark.parametrize("wire", WIRES, ids=str)
@pytest.mark.parametrize("graph", GRAPHS)
def test_the_mean_over_all_replicas_stays(here, graph, wire):
    values = stacked(here.size, 501, torch.float64)
    found, _ = mixed(here, graph, values, wire, True, rounds=8)
    total = torch.from_numpy(here.comm.allreduce(found.numpy().copy()))
    torch.testing.assert_close(total, values.sum(0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("wire", WIRES, ids=str)
def test_replicas_that_agree_stay_as_they_are_to_the_last_bit(here, wire):
    """Averaged as they are seen, they would be drawn towards numbers of 16 bits."""
    values = stacked(1, 501, torch.float32).expand(here.size, -1)
    found, _ = mixed(here, "exponential", values, wire, True, rounds=5)
    assert torch.equal(found, values[0])


def test_half_as_many_bytes_leave_each_rank(here):
    values = stacked(here.size, 512, torch.float32)
    whole, half = (mixed(here, "ring", values, wire, True)[1] for wire in (None, torch.bfloat16))
    assert whole == 2 * half


def test_what_is_as_short_already_is_not_rounded(here):
    values = stacked(here.size, 300, torch.bfloat16)
    one, other = (mixed(here, "complete", values, wire, True)[0] for wire in (None, torch.float16))
    assert torch.equal(one, other)


def test_infinity_is_not_hidden(here):
    values = stacked(here.size, 300, torch.float32)
    values[0, 7] = float("inf")
    found, _ = mixed(here, "complete", values, torch.float16, True, rounds=1)
    assert not bool(found.isfinite().all())
