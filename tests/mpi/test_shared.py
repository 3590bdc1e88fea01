"""Parameters read where they are in shared memory: bit for bit what messages bring, on any graph."""

from __future__ import annotations

import gc
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from test_neighbor import stacked

from hvd_gossip.algorithms import Algorithm
from hvd_gossip.comm import shared, slices, watchdog
from hvd_gossip.comm.fusion import FlatParameters
from hvd_gossip.comm.neighbor_mixer import NeighborMixer
from hvd_gossip.graphs import MatrixTopology, Varying, ring, schedule
from hvd_gossip.torch.engine import Engine

GRAPHS = ["ring", "exponential", "star", "complete", "random_ring", "random_matching", "base_k:k=1", "od_equidyn"]
SHAPES = [(3, 5), (1,), (0,), (4097,)]


def parameters(rank: int, dtypes=(torch.float32,)) -> list[torch.nn.Parameter]:
    made = []
    for index, dtype in enumerate(dtypes):
        for shape in SHAPES:
            generator = torch.Generator().manual_seed(100 * rank + index)
            made.append(torch.nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)))
    return made


def settled(here, text, values, **options):
    mixer = NeighborMixer(here, schedule(text, here.size), **options)
    flat = FlatParameters(values)
    mixer.settle(flat)
    return mixer, flat


def left_files() -> list[str]:
    """Files of this rank in /dev/shm that still have a name."""
    return [path.name for path in Path("/dev/shm").glob(f"hvd_gossip-{os.getpid()}-*")]


def nodes(here, size):
    """Ranks in nodes of a size, the last of which may hold fewer, so that some neighbours are near and others far."""
    return here.comm.Split(here.rank // size, here.rank)


@pytest.fixture
def sliced(monkeypatch):
    """Small vectors are averaged slice by slice too, on any graph, in small pieces."""
    monkeypatch.setattr(slices, "pay", lambda vectors, topology: True)
    monkeypatch.setattr(slices, "CACHE_BYTES", 4000)


@pytest.mark.parametrize("text", GRAPHS)
@pytest.mark.parametrize("wire", [None, torch.bfloat16])
def test_slices_give_what_messages_give_bit_for_bit(here, sliced, text, wire):
    dtypes = (torch.float32, torch.float64, torch.bfloat16, torch.complex64)
    ways = [
        settled(here, text, parameters(here.rank, dtypes), wire=wire, shared_memory=shared_memory, chunk_bytes=1000)
        for shared_memory in (True, False)
    ]
    for round in range(7):
        for mixer, flat in ways:
            mixer.begin(round, 0)
            mixer.mix(flat.buffers)
        for one, other in zip(ways[0][1].parameters, ways[1][1].parameters, strict=True):
            assert torch.equal(one, other)
    assert (ways[0][0].traffic.bytes, ways[0][0].traffic.messages) == (ways[1][0].traffic.bytes, 0)


def test_rounds_by_slices_and_by_rows_take_turns(here, monkeypatch):
    """Whoever is late: each round each rank holds one number everywhere, that of the dense product."""
    monkeypatch.setattr(slices, "pay", lambda vectors, topology: topology.name in ("complete", "ring"))
    graphs = [schedule(text, here.size)(0, 0) for text in ("complete", "star", "ring", "binary_tree")]
    made = Varying("turns", here.size, lambda round, epoch: graphs[round % len(graphs)])
    mixer, flat = NeighborMixer(here, made), FlatParameters([torch.nn.Parameter(torch.zeros(50_000))])
    mixer.settle(flat)
    values = np.zeros(here.size)
    for round in range(40):
        with torch.no_grad():
            flat.parameters[0].add_(here.rank * round)
        values += np.arange(here.size) * round
        if (round * 7 + here.rank) % 5 == 0:
            torch.ones(20_000).sum()
        mixer.begin(round, 0)
        mixer.mix(flat.buffers)
        values = made(round, 0).matrix() @ values
        assert flat.parameters[0].min() == flat.parameters[0].max()
        assert float(flat.parameters[0].detach()[0]) == pytest.approx(values[here.rank], rel=1e-4, abs=1e-4)


def test_slices_pay_for_large_vectors_that_several_ranks_read():
    class Vectors:
        nbytes = slices.LEAST_VECTORS

    assert slices.pay(Vectors, ring(4)) and slices.pay(Vectors, schedule("complete", 16)(0, 0))
    assert not slices.pay(Vectors, ring(2)) and not slices.pay(Vectors, schedule("complete", 64)(0, 0))
    Vectors.nbytes -= 1
    assert not slices.pay(Vectors, ring(4))


@pytest.mark.parametrize("text", GRAPHS)
@pytest.mark.parametrize("near", ["all", "pairs", "threes"])
def test_shared_memory_gives_what_messages_give_bit_for_bit(here, text, near):
    dtypes = (torch.float32, torch.float64, torch.bfloat16)
    node = nodes(here, 2 if near == "pairs" else 3) if near != "all" else None
    ways = [settled(here, text, parameters(here.rank, dtypes), node=node, chunk_bytes=1000)]
    ways.append(settled(here, text, parameters(here.rank, dtypes), shared_memory=False, chunk_bytes=1000))
    for round in range(7):
        for mixer, flat in ways:
            mixer.begin(round, 0)
            mixer.mix(flat.buffers)
        for one, other in zip(ways[0][1].parameters, ways[1][1].parameters, strict=True):
            assert torch.equal(one, other)
    assert ways[0][0].traffic.bytes == ways[1][0].traffic.bytes
    if near == "all":
        assert ways[0][0].traffic.messages == 0
    else:
        assert ways[0][0].traffic.messages <= ways[1][0].traffic.messages
    for mixer, _ in ways:
        mixer.free()
    if node is not None:
        node.Free()


def test_it_is_the_dense_product(here):
    values = stacked(here.size, 1001, torch.float64)
    mixer, flat = settled(here, "exponential", [torch.nn.Parameter(values[here.rank].clone())])
    for round in range(3):
        mixer.begin(round, 0)
        mixer.mix(flat.buffers)
        values = torch.from_numpy(mixer.schedule(round).matrix().toarray()) @ values
    assert (flat.parameters[0] - values[here.rank]).abs().max() < 1e-14


def test_tensors_stay_the_same_objects_and_only_the_average_is_seen(here):
    values = parameters(here.rank)
    mixer, flat = settled(here, "ring", values)
    buffers, addresses = list(flat.buffers), {parameter.data_ptr() for parameter in values}
    for round in range(4):
        mixer.begin(round, 0)
        mixer.mix(flat.buffers)
        assert all(one is other for one, other in zip(flat.buffers, buffers, strict=True))
        assert all(one is other for one, other in zip(flat.parameters, values, strict=True))
        assert flat.intact(values)
        addresses |= {parameter.data_ptr() for parameter in values}
        expected = values[-1].detach().sum()
        assert flat.buffers[0].sum() == pytest.approx(float(sum(p.detach().sum() for p in values)), abs=1e-3)
        assert torch.isfinite(expected)
    assert here.size == 1 or len(addresses) <= 2 * len(values)


def test_a_change_between_rounds_is_what_others_read_next(here):
    mixer, flat = settled(here, "complete", parameters(here.rank))
    for round in range(5):
        with torch.no_grad():
            for parameter in flat.parameters:
                parameter.fill_(here.rank + round)
        mixer.begin(round, 0)
        mixer.mix(flat.buffers)
        mean = (here.size - 1) / 2 + round
        assert flat.parameters[0].detach().sub(mean).abs().max() < 1e-6


def test_ranks_that_run_at_different_speeds_read_no_torn_values(here):
    """Whoever is late, in any round: each round every rank holds one number everywhere."""
    mixer, flat = settled(here, "random_matching", [torch.nn.Parameter(torch.full((50_000,), float(here.rank)))])
    value = torch.arange(here.size, dtype=torch.float64)
    for round in range(60):
        if (round * 7 + here.rank) % 5 == 0:
            os.sched_yield()
            torch.ones(20_000).sum()
        mixer.begin(round, 0)
        mixer.mix(flat.buffers)
        value = torch.from_numpy(mixer.schedule(round).matrix().toarray()) @ value
        assert flat.parameters[0].min() == flat.parameters[0].max()
        assert float(flat.parameters[0].detach()[0]) == pytest.approx(float(value[here.rank]), abs=1e-4)


def test_too_little_memory_is_told_once_and_messages_go_instead(here, monkeypatch):
    monkeypatch.setattr(shared, "FOLDER", "/nonexistent")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mixer, flat = settled(here, "complete", parameters(here.rank))
    told = [str(warning.message) for warning in caught]
    told = [text for text in told if "ranks of a node send messages instead" in text]
    assert len(told) == (1 if here.size > 1 and here.local_rank == 0 else 0)
    mixer.begin(0, 0)
    mixer.mix(flat.buffers)


def test_memory_that_one_rank_cannot_have_is_used_by_none(here, monkeypatch):
    if here.rank == here.size - 1:
        monkeypatch.setattr(shared, "FOLDER", "/nonexistent")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixer, flat = settled(here, "ring", parameters(here.rank))
    mixer.begin(0, 0)
    mixer.mix(flat.buffers)
    assert not left_files()


def test_memory_that_one_node_cannot_have_is_used_by_the_others(here, monkeypatch):
    """Nodes of two, the last of which has none: its ranks send messages, and the result is that of messages."""
    node = nodes(here, 2)
    if here.rank // 2 == (here.size - 1) // 2:
        monkeypatch.setattr(shared, "FOLDER", "/nonexistent")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ways = [settled(here, "exponential", parameters(here.rank), node=node)]
    ways.append(settled(here, "exponential", parameters(here.rank), shared_memory=False))
    for round in range(5):
        for mixer, flat in ways:
            mixer.begin(round, 0)
            mixer.mix(flat.buffers)
    for one, other in zip(ways[0][1].parameters, ways[1][1].parameters, strict=True):
        assert torch.equal(one, other)
    for mixer, _ in ways:
        mixer.free()
    node.Free()


def test_no_file_is_left_and_memory_outlives_the_mixer(here):
    mixer, flat = settled(here, "ring", parameters(here.rank))
    assert not left_files()
    mixer.begin(0, 0)
    mixer.mix(flat.buffers)
    values = flat.parameters[-1].detach().clone()
    mixer.free()
    del mixer
    gc.collect()
    assert torch.equal(flat.parameters[-1], values)


def test_ranks_with_different_graphs_are_told_by_those_who_read(here):
    if here.size == 1:
        pytest.skip("one rank agrees with itself")
    graphs = [ring(here.size), MatrixTopology("other", np.full((here.size, here.size), 1 / here.size))]
    made = Varying("own", here.size, lambda round, epoch: graphs[0 if round < 9 or here.rank else 1])
    mixer = NeighborMixer(here, made)
    flat = FlatParameters(parameters(here.rank))
    mixer.settle(flat)
    told = ""
    for round in (0, 9):
        mixer.begin(round, 0)
        try:
            mixer.mix(flat.buffers)
        except ValueError as error:
            told = str(error)
    neighbours = set(graphs[0].row(here.rank).sources.tolist())
    if here.rank == 0 or 0 in neighbours:
        assert "has another graph in this round" in told
        assert "every rank must be given the same graph" in told


def test_5000_rounds_on_new_graphs_hold_no_more_memory(here):
    mixer, flat = settled(here, "random_ring", [torch.nn.Parameter(torch.ones(10))])
    grown = []
    for round in range(5_000):
        mixer.begin(round, 0)
        mixer.mix(flat.buffers)
        if round in (999, 4_999):
            grown.append(int(Path("/proc/self/statm").read_text().split()[1]) * 4096)
    assert grown[1] - grown[0] < 2_000_000
    assert mixer.graphs.built == 0


def test_the_environment_turns_it_off_and_nonsense_is_refused(here, monkeypatch):
    monkeypatch.setenv("HVD_GOSSIP_SHARED_MEMORY", "0")
    mixer, flat = settled(here, "ring", parameters(here.rank))
    address = flat.parameters[0].data_ptr()
    mixer.begin(0, 0)
    mixer.mix(flat.buffers)
    assert flat.parameters[0].data_ptr() == address
    monkeypatch.setenv("HVD_GOSSIP_SHARED_MEMORY", "maybe")
    with pytest.raises(ValueError, match="got HVD_GOSSIP_SHARED_MEMORY = 'maybe': expected 1, or 0"):
        settled(here, "ring", parameters(here.rank))


def test_a_rank_that_waits_says_for_which_rank_round_and_graph(here, monkeypatch, capfd):
    monkeypatch.setattr(watchdog, "STALL_SECONDS", 0.2)
    if here.size == 1:
        pytest.skip("one rank waits for nobody")
    mixer, flat = settled(here, "complete", parameters(here.rank))
    late = here.size - 1
    if here.rank == late:
        time.sleep(1.0)
    mixer.begin(3, 0)
    mixer.mix(flat.buffers)
    assert here.rank == late or mixer.traffic.waited > 0.5
    told = capfd.readouterr().err
    assert (f"for rank {late} in round 3 of graph 'complete'" in told) == (here.rank != late)


def test_parameters_that_come_later_are_settled_anew(here):
    class Update(Algorithm):
        def step(self, x, local, mixer, state):
            local.update()
            mixer.mix(x)

    first, second = (torch.nn.Parameter(torch.full((1000,), float(here.rank))) for _ in range(2))
    optimizer = torch.optim.SGD([first], lr=0.0)
    engine = Engine(optimizer, Update(), NeighborMixer(here, schedule("complete", here.size)), here, {})
    engine.step(lambda: None)
    optimizer.add_param_group({"params": [second]})
    engine.step(lambda: None)
    for parameter in (first, second):
        assert parameter.detach().sub((here.size - 1) / 2).abs().max() < 1e-6
