"""Exchanges behind the passes of a model: bit for bit what the same steps give one after the other."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from test_optimizer import OPTIMIZERS, backward, model, parameters_equal

from hvd_gossip import torch as hvd
from hvd_gossip.comm import background
from hvd_gossip.comm.fusion import FlatParameters
from hvd_gossip.comm.neighbor_mixer import NeighborMixer
from hvd_gossip.graphs import MatrixTopology, Varying, complete, ring, schedule

ORDERS = ["dpsgd:order=awc", "dpsgd:order=atc"]
GRAPHS = ["ring", "random_ring", "ada:k0=4,gamma=1", "one_peer_exponential"]


@pytest.fixture(params=["shared", "messages"])
def path(request, monkeypatch):
    """Either way that parameters can take between ranks of a node."""
    monkeypatch.setenv("HVD_GOSSIP_SHARED_MEMORY", "1" if request.param == "shared" else "0")


def pair(algorithm, graph, parts=False, **options):
    """The same training without and with overlap."""
    made = []
    for overlap in (False, True):
        module = model()
        optimizer = hvd.DistributedOptimizer(
            OPTIMIZERS["momentum"](module.parameters()),
            module.named_parameters(),
            algorithm=algorithm,
            graph=graph,
            overlap=module if overlap else None,
            parts=list(module) if overlap and parts else (),
            **options,
        )
        made.append((module, optimizer))
    return made


def step(module, optimizer, seed):
    optimizer.zero_grad()
    backward(module, seed)
    optimizer.step()


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("algorithm", ORDERS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_the_trajectory_is_the_same_to_the_last_bit(here, path, algorithm, graph, parts):
    made = pair(algorithm, graph, parts)
    for number in range(9):
        for module, optimizer in made:
            optimizer.set_epoch(number // 3)
            step(module, optimizer, number + 10 * here.rank)
        if number % 2:
            parameters_equal(made[0][0], made[1][0], exact=True)
    distances = [hvd.consensus_distance(module) for module, _ in made]
    assert distances[0] == distances[1]


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("algorithm", ORDERS)
def test_what_people_do_around_a_step(here, path, algorithm, parts):
    """Evaluation, accumulation, averaged models, and a state that is loaded, in the midst of exchanges."""
    made = pair(algorithm, "exponential", parts)
    results = []
    for module, optimizer in made:
        seen = []
        for number in range(4):
            optimizer.zero_grad()
            backward(module, number + 10 * here.rank)
            module.eval()
            with torch.no_grad():
                seen.append(module(torch.ones(2, 1, 6, 6)))
            module.train()
            with hvd.averaged(module):
                seen.append(module[4].weight.detach().clone())
            backward(module, 99 + here.rank)
            optimizer.step()
            with hvd.averaged(module):
                seen.append(module[4].weight.detach().clone())
        saved = {name: value.clone() for name, value in module.state_dict().items()}
        state = optimizer.state_dict()
        step(module, optimizer, 5 + here.rank)
        backward(module, 6 + here.rank)
        module.load_state_dict(saved)
        optimizer.load_state_dict(state)
        optimizer.zero_grad()
        step(module, optimizer, 7 + here.rank)
        seen.append(torch.cat([value.flatten().float() for value in module.state_dict().values()]))
        results.append(seen)
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))
    assert made[0][1].gossip.round == made[1][1].gossip.round == 5


@pytest.mark.parametrize("algorithm", ORDERS)
def test_the_exchange_is_under_way_before_the_step(here, algorithm):
    if here.size == 1 or not background.allowed():
        pytest.skip("one rank exchanges nothing" if here.size == 1 else "MPI runs without MPI_THREAD_MULTIPLE")
    _, (module, optimizer) = pair(algorithm, "ring")
    step(module, optimizer, here.rank)
    if algorithm.endswith("awc"):
        backward(module, here.rank)
    assert optimizer.gossip.mixer._pending is not None
    optimizer.gossip.interrupt()
    assert optimizer.gossip.mixer._pending is None


def test_a_part_is_used_while_the_average_of_a_later_one_goes_on(here, monkeypatch):
    if here.size == 1 or not background.allowed():
        pytest.skip("one rank exchanges nothing" if here.size == 1 else "MPI runs without MPI_THREAD_MULTIPLE")
    _, (module, optimizer) = pair("dpsgd", "ring", parts=True)
    mixer, reach, seen = optimizer.gossip.mixer, threading.Event(), []
    average = mixer._settled._average

    def slow(graph, row, buffer, out, near, whom, told):
        first, last = buffer[:end], buffer[end:]
        messages = average(graph, row, first, out[:end], {j: v[:end] for j, v in near.items()}, whom)
        told(end)
        assert reach.wait(60)
        rest = {j: v[end:] for j, v in near.items()}
        return messages + average(graph, row, last, out[end:], rest, whom)

    end = optimizer.gossip.flat.end(0)[1]  # of the convolution's weight
    step(module, optimizer, here.rank)
    optimizer.gossip.finish()
    monkeypatch.setattr(mixer._settled, "_average", slow)
    step(module, optimizer, here.rank)

    def reached(*_):
        seen.append(mixer._pending.done())
        reach.set()

    module[0].register_forward_hook(reached)
    backward(module, here.rank)
    assert seen == [False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parts": [torch.nn.Linear(1, 1)]}, "parts without overlap"),
        ({"overlap": torch.nn.Linear(1, 1), "parts": [torch.nn.Linear(1, 1)]}, "no module of the model"),
    ],
)
def test_parts_of_nothing_are_refused(here, options, message):
    module = model()
    with pytest.raises(ValueError, match=message):
        hvd.DistributedOptimizer(OPTIMIZERS["momentum"](module.parameters()), **options)


def test_another_epoch_in_the_midst_of_an_exchange_is_refused(here):
    if here.size == 1:
        pytest.skip("one rank exchanges nothing")
    _, (module, optimizer) = pair("dpsgd:order=awc", "ring")
    backward(module, here.rank)
    optimizer.set_epoch(1)
    with pytest.raises(ValueError, match=r"round 0 in epoch 0 is under way, got round 0 in epoch 1"):
        optimizer.step()
    optimizer.set_epoch(0)
    optimizer.step()


def test_an_error_in_the_background_is_raised_by_the_step(here):
    if here.size == 1:
        pytest.skip("one rank agrees with itself")
    other = MatrixTopology("other", np.full((here.size, here.size), 1 / here.size))
    graphs = [complete(here.size), ring(here.size) if here.size > 3 else other]
    made = Varying("own", here.size, lambda round, epoch: graphs[0 if round < 9 or here.rank else 1])
    _, (module, optimizer) = pair("dpsgd:order=awc", made)
    for number in range(9):
        step(module, optimizer, number)
    backward(module, 9)
    told = ""
    try:
        optimizer.step()
    except ValueError as error:
        told = str(error)
    assert told == "" or "has another graph in this round" in told
    assert here.comm.allreduce(told != "")


@pytest.mark.parametrize("algorithm", ORDERS)
def test_bytes_are_counted_as_without_overlap(here, path, algorithm):
    made = pair(algorithm, "ring")
    for module, optimizer in made:
        for number in range(3):
            step(module, optimizer, number)
        optimizer.gossip.finish()
    one, other = (optimizer.gossip.mixer.traffic for _, optimizer in made)
    assert (one.bytes, one.messages) == (other.bytes, other.messages)


def memory() -> int:
    """Bytes that this process holds."""
    return 1024 * int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0])


@pytest.mark.filterwarnings("ignore:.*send messages instead")
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("graph", ["ring", "complete"])
def test_memory_beyond_the_model_is_one_copy_whatever_the_degree(here, path, graph, overlap):
    """Of 80 MB of parameters: a second place for them, and 2 MiB for each neighbour that messages come from."""
    size, mixer = 80_000_000, NeighborMixer(here, schedule(graph, here.size))
    flat = FlatParameters([torch.nn.Parameter(torch.ones(size // 4))])
    before = memory()
    mixer.settle(flat, overlap)
    for round in range(3):
        mixer.begin(round, 0)
        mixer.start(flat.buffers)
        mixer.mix(flat.buffers)
    copies = 1 if mixer._settled.holds(flat.buffers) else 0
    # What neighbours hold in shared memory is counted as held by each who reads it.
    read = 2 * (here.size - 1) if mixer._settled._vectors else 0
    assert memory() - before < (copies + read) * size + here.size * (2 << 20) + 20_000_000
    mixer.free()
