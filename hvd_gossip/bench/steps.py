"""A whole training step, without communication, with ours, and with what others offer."""

from __future__ import annotations

import importlib.util
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hvd_gossip import torch as hvd
from hvd_gossip.bench.candidates import Candidate
from hvd_gossip.comm import horovod_allreduce
from hvd_gossip.comm.world import World
from hvd_gossip.models import MODELS

SHAPE, CLASSES = (3, 32, 32), 10


class Step:
    """Forward, backward and update on one batch, the same each time.

    Args:
        name: of the model.
        batch: samples.
    """

    def __init__(self, name: str, batch: int) -> None:
        torch.manual_seed(0)
        self.model = MODELS[name](SHAPE, CLASSES)
        self.inputs, self.labels = torch.randn(batch, *SHAPE), torch.randint(0, CLASSES, (batch,))

    def backward(self, called: Callable[[Tensor], Tensor]) -> None:
        """Gradients of one batch."""
        nn.functional.cross_entropy(called(self.inputs), self.labels).backward()

    def sgd(self, parameters: Any) -> torch.optim.Optimizer:
        """The local optimizer that all of them use."""
        return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)

    def candidate(self, title: str, optimizer: Any) -> Candidate:
        """Steps of an optimizer on this model."""

        def run() -> None:
            optimizer.zero_grad()
            self.backward(self.model)
            optimizer.step()

        return Candidate(title, run)


def alone(name: str, batch: int) -> Candidate:
    """No communication."""
    step = Step(name, batch)
    return step.candidate("no communication", step.sgd(step.model.parameters()))


def gossip(name: str, batch: int, graph: str, order: str, overlap: bool) -> Candidate:
    """D-PSGD."""
    step = Step(name, batch)
    optimizer = hvd.DistributedOptimizer(
        step.sgd(step.model.parameters()),
        step.model.named_parameters(),
        graph=graph,
        algorithm=f"dpsgd:order={order}",
        overlap=step.model if overlap else None,
    )
    return step.candidate(f"gossip {graph}, {order}{', overlap' if overlap else ''}", optimizer)


def horovod(world: World, name: str, batch: int) -> Candidate:
    """Horovod's own optimizer."""
    step, theirs = Step(name, batch), horovod_allreduce.start(world)
    optimizer = theirs.DistributedOptimizer(step.sgd(step.model.parameters()), step.model.named_parameters())
    return step.candidate("Horovod", optimizer)


def start_gloo(world: World) -> None:
    """Let torch.distributed run on the ranks, for those who need it."""
    if torch.distributed.is_initialized():
        return
    near = world.node.Get_size() == world.size
    with socket.socket() as free:
        free.bind(("127.0.0.1" if near else "", 0))
        address = ("127.0.0.1" if near else socket.gethostbyname(socket.gethostname()), free.getsockname()[1])
    host, port = world.comm.bcast(address)
    if near:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.distributed.init_process_group("gloo", f"tcp://{host}:{port}", rank=world.rank, world_size=world.size)


def data_parallel(world: World, name: str, batch: int) -> Candidate:
    """Torch's DistributedDataParallel on gloo."""
    start_gloo(world)
    step = Step(name, batch)
    wrapped, optimizer = nn.parallel.DistributedDataParallel(step.model), step.sgd(step.model.parameters())

    def run() -> None:
        optimizer.zero_grad()
        step.backward(wrapped)
        optimizer.step()

    return Candidate("DistributedDataParallel", run)


def decent_dp(world: World, name: str, batch: int) -> Candidate:
    """decent-dp's ring, in which each rank exchanges with one neighbour in a round; it updates in backward."""
    start_gloo(world)
    from decent_dp.ddp import DecentralizedDataParallel

    step = Step(name, batch)
    wrapped = DecentralizedDataParallel(
        step.model,
        lambda named: step.sgd([parameter for _, parameter in named]),
        topology="ring",
        _local_world_size=world.node.Get_size(),
    )
    return Candidate("decent-dp ring", lambda: step.backward(wrapped))


def steps(world: World, name: str, batch: int, graphs: Sequence[str]) -> Iterator[Candidate]:
    """All that can run here."""
    yield alone(name, batch)
    for graph in graphs:
        for order, overlap in (("atc", False), ("atc", True), ("awc", False), ("awc", True)):
            yield gossip(name, batch, graph, order, overlap)
    if horovod_allreduce.installed():
        yield horovod(world, name, batch)
    if world.size > 1:
        yield data_parallel(world, name, batch)
    if world.size > 1 and importlib.util.find_spec("decent_dp"):
        yield decent_dp(world, name, batch)
