"""Any torch optimizer made distributed: the same object, whose `step` also averages with the other replicas."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from hvd_gossip import specification
from hvd_gossip.algorithms import Algorithm, algorithm as find_algorithm
from hvd_gossip.comm import world
from hvd_gossip.comm.allreduce_mixer import ALLREDUCE, AllreduceMixer
from hvd_gossip.comm.hierarchical_mixer import HierarchicalMixer, check_group_size
from hvd_gossip.comm.neighbor_mixer import NeighborMixer
from hvd_gossip.graphs import Schedule, Topology, schedule
from hvd_gossip.mixing import Mixer
from hvd_gossip.torch.arguments import (
    check_gradient_options,
    check_hints,
    check_method,
    check_overlap,
    parameter_names,
)
from hvd_gossip.torch.collectives import Average, Compression, ReduceOp, Sum, reduction
from hvd_gossip.torch.engine import Engine
from hvd_gossip.torch.overlap import hide_exchanges


class GossipOptimizer(torch.optim.Optimizer):
    """What `DistributedOptimizer` adds to the class of the optimizer that it is given.

    Attributes:
        gossip: the algorithm, the mixer and the flat parameters behind `step`.
    """

    gossip: Engine
    # GradScaler hands scale and overflow to `step`, which has to average even where it must not update.
    _step_supports_amp_scaling = True

    # A function compiled around `step` calls it as it is, as it does a plain optimizer's.
    @torch._disable_dynamo
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of the algorithm: the wrapped optimizer's own update, and the average with the neighbours."""
        self._opt_called = True
        loss = None
        if closure is not None and self.gossip.gradient_comes_first:
            check_closure(self)
            with torch.enable_grad():
                loss = closure()
            closure = None

        def update() -> None:
            nonlocal loss
            arguments = () if closure is None else (closure,)
            result = super(GossipOptimizer, self).step(*arguments)
            loss = result if arguments else loss

        self.gossip.step(update)
        return loss

    # Learning-rate schedulers and torch's profiler wrap `step` unless it says that they have done so already.
    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    step.hooked = True  # type: ignore[attr-defined]

    def synchronize(self) -> None:
        """Exchange gradients now, if the algorithm does at all; then clip them, and step in `skip_synchronize`."""
        self.gossip.synchronize()

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """A step inside does not exchange gradients again after `synchronize`; parameters are averaged as ever."""
        self.gossip.expect_synchronized()
        yield

    def set_epoch(self, epoch: int) -> None:
        """Tell the graph schedule the epoch, as one tells a DistributedSampler."""
        self.gossip.epoch = int(epoch)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuse copies: communicators belong to this process and this object."""
        raise ValueError("a distributed optimizer cannot be copied or pickled: copy or save its state_dict()")

    def state_dict(self) -> dict[str, Any]:
        """The wrapped optimizer's state; the key "hvd_gossip", which plain optimizers ignore, holds the round."""
        return {**super().state_dict(), "hvd_gossip": self.gossip.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` gave, here or from a plain optimizer."""
        super().load_state_dict(state_dict)
        self.gossip.load_state_dict(state_dict.get("hvd_gossip", {}))


def check_closure(optimizer: GossipOptimizer) -> None:
    """Refuse optimizers that evaluate the closure as they please where the gradient is needed beforehand."""
    parameter = inspect.signature(super(GossipOptimizer, optimizer).step).parameters.get("closure")
    if parameter is not None and parameter.default is inspect.Parameter.empty:
        raise ValueError(
            f"{type(optimizer).__name__} evaluates its closure several times in a step: expected an algorithm that "
            "updates first, use algorithm='dpsgd:order=atc'"
        )


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, Tensor]] | None = None,
    compression: torch.dtype | None = Compression.none,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    sparse_as_dense: bool = False,
    process_set: None = None,
    *,
    graph: str | Topology | Schedule = "exponential",
    algorithm: str | Algorithm = "dpsgd",
    allreduce: str = "horovod",
    overlap: nn.Module | None = None,
    parts: Sequence[nn.Module] = (),
    group_size: int | str | None = None,
) -> Any:
    """Make an optimizer distributed, in place: it stays the same object and an instance of its class.

    D-PSGD: `x_i <- sum_j W[i, j] (x_j + u(x_j, g_j))`, u the wrapped optimizer's own update.

    Args:
        optimizer: any `torch.optim.Optimizer`; its parameters become views of flat buffers.
        named_parameters: `model.named_parameters()`; names appear in messages.
        compression: `Compression.fp16` or `Compression.bf16` sends 16 bits for each number: parameters, or with
            `algorithm="allreduce"` gradients (fp16 only).
        backward_passes_per_step: how many backward passes add up their gradients before `step` is called.
        op: `Average`, or `Sum` for gradients of `algorithm="allreduce"`.
        gradient_predivide_factor, num_groups, groups, sparse_as_dense: Horovod's hints, which change no result:
            gradients are averaged in one buffer, and sparse ones are given back sparse.
        process_set: only the default; for a part of the ranks, give `init` a communicator.
        graph: a short form as "ring" or "base_k:k=2", a `Topology`, or a schedule (`hvd_gossip.graphs.Varying`).
        algorithm: "dpsgd" (update, then mix), "dpsgd:order=awc" (mix, then update), "allreduce", or another name of
            `hvd_gossip.algorithms`, or an `Algorithm`.
        allreduce: who carries `algorithm="allreduce"`: "horovod", or "mpi" where Horovod is not installed.
        overlap: the model, to let averages go on behind its forward and backward passes. Its parameters may then be
            changed by `step` and by loading a state only, and what `step` has done shows at the next forward pass,
            `state_dict()`, or function of this module. Memory: a second copy of the parameters.
        parts: modules of that model, so that after an update each waits for its own average only, when it is called.
            For modules whose parameters nobody uses before they are called: layers one after the other, but not, say,
            the `out_proj` of `nn.MultiheadAttention`.
        group_size: ranks that follow each other and hold the mean of their group, while groups gossip with groups on
            `graph`, which is one of groups then; "node" for the ranks of a node (default: every rank for itself).

    Returns:
        The optimizer given.

    Raises:
        ValueError: an argument that is impossible, on every rank alike.
        RuntimeError: `algorithm="allreduce"` without Horovod.

    Example:
        >>> import hvd_gossip.torch as hvd
        >>> hvd.init()
        >>> model = torch.nn.Linear(4, 2)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), graph="ring")
        >>> model(torch.ones(1, 4)).sum().backward()
        >>> optimizer.step()
        >>> optimizer.gossip.round
        1

    Source: arXiv:1705.09056 (D-PSGD), arXiv:1802.05799 (Horovod).
    """
    here = world.current()

    def check() -> Algorithm:
        check_optimizer(optimizer)
        specification.choose("allreduce", allreduce, ALLREDUCE)
        check_hints(backward_passes_per_step, op, gradient_predivide_factor, process_set)
        found = find_algorithm(algorithm)
        check_gradient_options(found, compression, op)
        check_overlap(overlap, parts)
        check_method(found, optimizer.param_groups, compression, group_size)
        return found

    method = here.together(check)
    names = parameter_names(optimizer, named_parameters)
    mixer = make_mixer(method, graph, allreduce, compression, group_size)
    scale = here.size if reduction(op) is Sum else 1
    engine = Engine(optimizer, method, mixer, here, names, scale, overlap is not None)
    if overlap is not None:
        hide_exchanges(overlap, engine, parts)
    # A scheduler made earlier has put its own `step` in front of the class's.
    optimizer.__dict__.pop("step", None)
    kind = type(optimizer)
    optimizer.__class__ = type(kind.__name__, (GossipOptimizer, kind), {"__module__": kind.__module__})
    optimizer.gossip = engine  # type: ignore[attr-defined]
    return optimizer


def make_mixer(
    method: Algorithm,
    graph: str | Topology | Schedule,
    allreduce: str,
    compression: torch.dtype | None,
    group_size: int | str | None,
) -> Mixer:
    """The exact mean for a centralized algorithm, the neighbours of the graph for any other, of ranks or of groups."""
    here = world.current()
    if method.centralized:
        return AllreduceMixer(here, allreduce, compression)
    size = 1 if group_size is None else check_group_size(here, group_size)
    rounds = here.together(lambda: method.prepare(schedule(graph, here.size // size)))
    if group_size is None:
        return NeighborMixer(here, rounds, compression)
    return HierarchicalMixer(here, rounds, size, compression)


def check_optimizer(optimizer: Any) -> None:
    """Refuse what is not an optimizer, or is distributed already."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(f"got optimizer of type {type(optimizer).__name__}: expected a torch.optim.Optimizer")
    if isinstance(optimizer, GossipOptimizer):
        raise ValueError("this optimizer is distributed already: wrap it once")
