"""Every algorithm, the same lines over MPI and in the simulator: the same trajectory."""

from __future__ import annotations

import pytest
import torch
from forms import FORMS

from hvd_gossip.algorithms import ALGORITHMS, algorithm
from hvd_gossip.comm.allreduce_mixer import AllreduceMixer
from hvd_gossip.comm.neighbor_mixer import NeighborMixer
from hvd_gossip.graphs import complete, exponential, ring, schedule
from hvd_gossip.matrix_mixer import MatrixMixer

ENTRIES = ["allreduce", "dpsgd:order=atc", "dpsgd:order=awc"]
SIZE = 37


def test_every_entry_of_the_table_is_tested():
    assert {entry.partition(":")[0] for entry in ENTRIES} == set(ALGORITHMS)


class Changing:
    """Ring, exponential and complete in turn."""

    name, period = "changing", 3

    def __init__(self, n: int) -> None:
        self.n, self.graphs = n, [ring(n), exponential(n), complete(n)]

    def __call__(self, round: int, epoch: int = 0):
        return self.graphs[round % 3]


CASES = [("allreduce", "ring"), *((entry, graph) for entry in ENTRIES[1:] for graph in (*FORMS, Changing))]
"""The centralized algorithm knows no graph."""


class Quadratic:
    """`f_i(x) = |a_i * (x - b_i)|^2 / 2`, another one for each replica; rows of stacked tensors."""

    def __init__(self, n: int, dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(5)
        self.a = torch.rand(n, SIZE, generator=generator, dtype=torch.float64).add(0.5).to(dtype)
        self.b = torch.randn(n, SIZE, generator=generator, dtype=torch.float64).to(dtype)

    def gradient(self, x: torch.Tensor, rows) -> torch.Tensor:
        return self.a[rows] ** 2 * (x - self.b[rows])


def trajectory(name, mixer, x, gradient, steps=25):
    """Run an algorithm with torch's SGD with momentum and weight decay as the local update."""
    parameter = torch.nn.Parameter(x)
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9, weight_decay=0.01)
    method, points = algorithm(name), []
    buffers = [parameter.data]
    state = method.init(buffers)
    for round in range(steps):
        mixer.begin(round, 0)
        parameter.grad = gradient(parameter.detach())
        state = method.gradient(buffers, [parameter.grad], mixer, state)
        state = method.step(buffers, lambda: optimizer.step(), mixer, state)
        points.append(parameter.detach().clone())
    return points


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize(("entry", "graph"), CASES, ids=str)
def test_mpi_equals_the_simulator_step_by_step(here, entry, graph, dtype, tolerance):
    n, task = here.size, Quadratic(here.size, dtype)
    if isinstance(graph, str) and not FORMS[graph](n):
        with pytest.raises(ValueError, match="graph"):
            schedule(graph, n)
        return
    rounds = schedule(graph if isinstance(graph, str) else graph(n), n)
    if algorithm(entry).centralized:
        ours, theirs = AllreduceMixer(here, "mpi"), MatrixMixer(schedule("complete", n))
    else:
        ours, theirs = NeighborMixer(here, rounds), MatrixMixer(rounds)
    start = torch.ones(n, SIZE, dtype=dtype)
    mine = trajectory(entry, ours, start[here.rank].clone(), lambda x: task.gradient(x, here.rank))
    everyone = trajectory(entry, theirs, start.clone(), lambda x: task.gradient(x, slice(None)))
    for step, (point, stacked) in enumerate(zip(mine, everyone, strict=True)):
        error = (point - stacked[here.rank]).abs().max()
        assert error <= tolerance, f"step {step}: {error}"
    ours.free()


@pytest.mark.parametrize("entry", ENTRIES)
def test_one_replica_is_the_plain_optimizer_bit_for_bit(entry):
    task = Quadratic(1, torch.float32)
    mixer = MatrixMixer(schedule("ring", 1))
    points = trajectory(entry, mixer, torch.ones(1, SIZE), lambda x: task.gradient(x, slice(None)))
    parameter = torch.nn.Parameter(torch.ones(1, SIZE))
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9, weight_decay=0.01)
    for point in points:
        parameter.grad = task.gradient(parameter.detach(), slice(None))
        optimizer.step()
        assert torch.equal(point, parameter.detach())


def test_gossip_on_equal_quadratics_contracts_as_the_graph_says(here):
    """Replicas that differ at the start and have one and the same task agree at the rate of W."""
    n = here.size
    mixer = NeighborMixer(here, schedule("complete", n))
    task = Quadratic(1, torch.float64)
    start = torch.full((SIZE,), float(here.rank), dtype=torch.float64)
    last = trajectory("dpsgd", mixer, start, lambda x: task.gradient(x, 0), steps=1)[-1]
    everyone = here.comm.allgather(last.numpy())
    assert max(abs(value - everyone[0]).max() for value in everyone) < 1e-14
    mixer.free()


def test_the_mean_of_all_replicas_steps_with_the_mean_gradient(here):
    """W is doubly stochastic: gossip moves the mean as plain SGD with the mean of the local gradients does."""
    n, task = here.size, Quadratic(here.size, torch.float64)
    mixer = NeighborMixer(here, schedule("exponential", n))
    x = torch.nn.Parameter(torch.full((SIZE,), float(here.rank), dtype=torch.float64))
    optimizer, method = torch.optim.SGD([x], lr=0.1), algorithm("dpsgd")
    for round in range(10):
        before = here.comm.allreduce(x.detach().numpy().copy()) / n
        x.grad = task.gradient(x.detach(), here.rank)
        expected = before - 0.1 * here.comm.allreduce(x.grad.numpy().copy()) / n
        mixer.begin(round, 0)
        method.step([x.data], optimizer.step, mixer, None)
        after = here.comm.allreduce(x.detach().numpy().copy()) / n
        assert abs(after - expected).max() < 1e-14 * max(1, n)
    mixer.free()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dpsg", "did you mean 'dpsgd'"),
        ("dpsgd:order=actc", "did you mean 'atc'"),
        ("dpsgd:ordr=atc", "did you mean 'order'"),
        ("allreduce:x=1", "has no options"),
        ("", "expected NAME"),
    ],
)
def test_mistakes_are_told(name, message):
    with pytest.raises(ValueError, match=message):
        algorithm(name)
