"""Every algorithm, the same lines over MPI and in the simulator: the same trajectory."""

from __future__ import annotations

import io

import pytest
import torch
from forms import FORMS

from hvd_gossip import torch as hvd
from hvd_gossip.algorithms import ALGORITHMS, Local, Solo, algorithm
from hvd_gossip.comm.allreduce_mixer import AllreduceMixer
from hvd_gossip.comm.neighbor_mixer import NeighborMixer
from hvd_gossip.graphs import complete, exponential, ring, schedule
from hvd_gossip.graphs.spectral import smallest_eigenvalue
from hvd_gossip.matrix_mixer import MatrixMixer

ENTRIES = [
    "allreduce",
    "solo",
    "dpsgd:order=atc",
    "dpsgd:order=awc",
    "delayed",
    "delayed:average=global",
    "gradient_tracking",
    "gradient_tracking:order=atc",
    "d2",
    "exact_diffusion",
    "push_sum",
    "push_sum:overlap=true",
    "quasi_global",
    "quasi_global:nesterov=false,momentum=0.5,decay=0.8",
    "decentlam",
    "choco:compressor=none,gamma=1",
    "choco:compressor=(top_k:fraction=0.3),gamma=0.4",
    "choco:compressor=(random_k:fraction=0.5)",
    "choco:compressor=sign,gamma=0.2",
    "partial_mixing:power=0.5",
    "every:h=3",
    "every:h=2,of=(choco:compressor=fp16,gamma=0.5)",
    "global_average_every:h=4,of=(every:h=2)",
    "gossip_pga:h=3,order=awc",
    "local_sgd:h=3",
    "adaptive_period:period=2,initial=6",
    "dasgd:tau=3,d=1,xi=0.3",
    "dasgd:tau=2,d=0,xi=0",
]
GRAPHS = ("ring", "ring:weights=lazy", "ring:directed=true", "exponential", "star:weights=metropolis", "random_ring")
SIZE, WHOLE = 37, 40
"""An odd number, and one without gaps in a flat buffer, which compressors see too."""
ROUNDED = {"choco:compressor=(top_k:fraction=0.3),gamma=0.4", "choco:compressor=sign,gamma=0.2"}
"""In float32 a last bit decides which number is sent, or its sign: only float64 keeps both sides together."""


def test_every_entry_of_the_table_is_tested():
    assert {entry.partition(":")[0] for entry in ENTRIES} == set(ALGORITHMS)


class Changing:
    """Ring, exponential and complete in turn."""

    name, period = "changing", 3

    def __init__(self, n: int) -> None:
        self.n, self.graphs = n, [ring(n), exponential(n), complete(n)]

    def __call__(self, round: int, epoch: int = 0):
        return self.graphs[round % 3]


CASES = [
    *(("allreduce", "ring"), ("solo", "ring")),
    *((entry, graph) for entry in ENTRIES if entry.startswith("dpsgd") for graph in FORMS),
    *((entry, graph) for entry in ENTRIES[2:] for graph in (*GRAPHS, Changing)),
]
"""The centralized algorithm knows no graph."""


def rounds_of(method, graph, n):
    """The schedule that the method mixes with, or None where it has said why not."""
    if isinstance(graph, str) and not FORMS.get(graph, lambda n: True)(n):
        with pytest.raises(ValueError, match="graph"):
            schedule(graph, n)
        return None
    rounds = schedule(graph if isinstance(graph, str) else graph(n), n)
    changing = rounds.period != 1 and method.static
    uneven = method.symmetric and not all(rounds(t).symmetric for t in range(3))
    if n > 1 and (changing or uneven):
        what = "the same graph in every round" if changing else "a symmetric W"
        with pytest.raises(ValueError, match=f"algorithm '.*' needs {what}, got '"):
            method.prepare(rounds)
        return None
    if n > 1 and method.name == "d2" and smallest_eigenvalue(rounds(0)) < -0.33:
        with pytest.raises(ValueError, match="above -1/3, got -.* weights=lazy"):
            method.prepare(rounds)
        return None
    return method.prepare(rounds)


class Quadratic:
    """`f_i(x) = |a_i * (x - b_i)|^2 / 2`, another one for each replica; rows of stacked tensors."""

    def __init__(self, n: int, dtype: torch.dtype, size: int = SIZE) -> None:
        generator = torch.Generator().manual_seed(5)
        self.a = torch.rand(n, size, generator=generator, dtype=torch.float64).add(0.5).to(dtype)
        self.b = torch.randn(n, size, generator=generator, dtype=torch.float64).to(dtype)

    def gradient(self, x: torch.Tensor, rows) -> torch.Tensor:
        return self.a[rows] ** 2 * (x - self.b[rows])


def trajectory(name, mixer, x, gradient, steps=25):
    """Run an algorithm with torch's SGD with momentum, weight decay and a falling rate as the local update."""
    method, points = algorithm(name) if mixer.size > 1 else Solo(), []
    momentum = 0.0 if algorithm(name).brings_momentum else 0.9
    parameter = torch.nn.Parameter(x)
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=momentum, weight_decay=0.01)
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
    buffers = [parameter.data]
    state = method.init(buffers)
    for step in range(steps):
        local = Local(optimizer.step, step, lambda: [optimizer.param_groups[0]["lr"]])
        mixer.begin(method.rounds(step), 0)
        parameter.grad = gradient(parameter.detach())
        state = method.gradient(buffers, [parameter.grad], local, mixer, state)
        state = method.step(buffers, local, mixer, state)
        decay.step()
        points.append(parameter.detach().clone())
    return points


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)], ids=str)
@pytest.mark.parametrize(("entry", "graph"), CASES, ids=str)
def test_mpi_equals_the_simulator_step_by_step(here, entry, graph, dtype, tolerance):
    if dtype == torch.float32 and graph not in ("ring", Changing):
        return
    n, task, method = here.size, Quadratic(here.size, dtype), algorithm(entry)
    rounds = rounds_of(method, graph, n)
    if rounds is None or (entry in ROUNDED and dtype == torch.float32):
        return
    if method.centralized:
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


@pytest.mark.parametrize("graph", ["ring:weights=lazy", "random_ring"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_whole_optimizer_equals_the_simulator_and_resumes(here, entry, graph):
    """Through `DistributedOptimizer`, its flat buffers and its state, saved in the midst and loaded elsewhere."""
    n, method = here.size, algorithm(entry)
    if not method.centralized and rounds_of(method, graph, n) is None:
        return
    task = Quadratic(n, torch.float64, WHOLE)

    def make():
        x = torch.nn.Parameter(torch.ones(WHOLE, dtype=torch.float64))
        momentum = 0.0 if method.brings_momentum else 0.9
        plain = torch.optim.SGD([x], lr=0.1, momentum=momentum, weight_decay=0.01)
        rate = torch.optim.lr_scheduler.ExponentialLR(plain, 0.97)
        return x, hvd.DistributedOptimizer(plain, [("x", x)], algorithm=entry, graph=graph, allreduce="mpi"), rate

    x, optimizer, rate = make()
    points = []
    for step in range(25):
        if step == 13:
            saved = io.BytesIO()
            torch.save((x.detach(), optimizer.state_dict(), rate.state_dict()), saved)
            value, state, scheduler = torch.load(io.BytesIO(saved.getvalue()), weights_only=True)
            x, optimizer, rate = make()
            x.data.copy_(value)
            optimizer.load_state_dict(state)
            rate.load_state_dict(scheduler)
        x.grad = task.gradient(x.detach(), here.rank)
        optimizer.step()
        rate.step()
        points.append(x.detach().clone())
    rounds = schedule("complete", n) if method.centralized else method.prepare(schedule(graph, n))
    start = torch.ones(n, WHOLE, dtype=torch.float64)
    everyone = trajectory(entry, MatrixMixer(rounds), start, lambda x: task.gradient(x, slice(None)))
    for step, (point, stacked) in enumerate(zip(points, everyone, strict=True)):
        error = (point - stacked[here.rank]).abs().max()
        assert error <= 1e-12, f"step {step}: {error}"


@pytest.mark.parametrize("entry", ENTRIES)
def test_one_replica_is_the_plain_optimizer_bit_for_bit(entry):
    task, momentum = Quadratic(1, torch.float32), 0.0 if algorithm(entry).brings_momentum else 0.9
    mixer = MatrixMixer(schedule("ring", 1))
    points = trajectory(entry, mixer, torch.ones(1, SIZE), lambda x: task.gradient(x, slice(None)))
    parameter = torch.nn.Parameter(torch.ones(1, SIZE))
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=momentum, weight_decay=0.01)
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
    for point in points:
        parameter.grad = task.gradient(parameter.detach(), slice(None))
        optimizer.step()
        decay.step()
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
        method.step([x.data], Local(optimizer.step), mixer, None)
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
        ("every:h=0", "'every': got h = 0, expected an integer of at least 1"),
        ("local_sgd:h=1.5", "got h = 1.5"),
        ("every:h=2,of=d2", "cannot wrap 'd2'"),
        ("every:h=2,of=(choco:gama=1)", "did you mean 'gamma'"),
        ("every:h=2,of=(choco", "matching parentheses"),
        ("choco:compressor=(random_k:fraction=0.1,unbiased=true)", "needs a contraction"),
        ("choco:gamma=0", "got gamma = 0"),
        ("choco:compressor=topk", "did you mean 'top_k'"),
        ("push_sum:overlap=1", "expected true or false"),
        ("dasgd:tau=2,d=2", "expected less"),
        ("delayed:average=all", "expected one of global, neighbors"),
        ("quasi_global:momentum=2", "expected a number from 0 to 1"),
        ("", "expected NAME"),
    ],
)
def test_mistakes_are_told(name, message):
    with pytest.raises(ValueError, match=message):
        algorithm(name)
