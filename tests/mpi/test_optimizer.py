"""DistributedOptimizer: any optimizer, any module, and everything that people do around a step."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from hvd_gossip import torch as hvd

ALGORITHMS = [("dpsgd", "ring"), ("dpsgd", "complete"), ("dpsgd:order=awc", "exponential"), ("allreduce", "ring")]
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-2, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1, amsgrad=True),
    "adam_fused": lambda p: torch.optim.Adam(p, lr=1e-2, fused=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.5),
}


def model(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 4 * 4, 3)
    )


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(8, 1, 6, 6, generator=generator), torch.randint(0, 3, (8,), generator=generator)


def backward(module: nn.Module, seed: int) -> torch.Tensor:
    inputs, labels = batch(seed)
    loss = nn.functional.cross_entropy(module(inputs), labels)
    loss.backward()
    return loss.detach()


def wrap(module, optimizer, algorithm="dpsgd", graph="ring", **options):
    return hvd.DistributedOptimizer(
        optimizer, module.named_parameters(), algorithm=algorithm, graph=graph, allreduce="mpi", **options
    )


def parameters_equal(one: nn.Module, other: nn.Module, exact: bool) -> None:
    for (name, a), b in zip(one.state_dict().items(), other.state_dict().values(), strict=True):
        if exact:
            assert torch.equal(a, b), name
        else:
            torch.testing.assert_close(a, b, atol=2e-4, rtol=1e-3, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("algorithm", "graph"), ALGORITHMS)
def test_equal_data_everywhere_is_plain_training(here, algorithm, graph, optimizer):
    """W x = x for equal replicas; bit for bit for one replica, and up to the rounding of weights for more."""
    plain, ours = model(), model()
    reference = OPTIMIZERS[optimizer](plain.parameters())
    distributed = wrap(ours, OPTIMIZERS[optimizer](ours.parameters()), algorithm, graph)
    assert isinstance(distributed, type(reference))
    for step in range(12):
        for module, chosen in ((plain, reference), (ours, distributed)):
            chosen.zero_grad()
            backward(module, step)
            chosen.step()
    parameters_equal(plain, ours, exact=here.size == 1)


@pytest.mark.parametrize(("algorithm", "graph"), ALGORITHMS)
def test_saved_and_resumed_it_goes_on_bit_for_bit(here, algorithm, graph):
    def fresh():
        module = model()
        optimizer = wrap(module, OPTIMIZERS["momentum"](module.parameters()), algorithm, graph)
        return module, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.5)

    def train(parts, steps):
        module, optimizer, scheduler = parts
        losses = []
        for step in steps:
            optimizer.zero_grad()
            losses.append(backward(module, 1000 * here.rank + step))
            optimizer.step()
            scheduler.step()
        return losses

    first = fresh()
    train(first, range(50))
    saved = copy.deepcopy([part.state_dict() for part in first])
    expected = train(first, range(50, 70))
    second = fresh()
    for part, state in zip(second, saved, strict=True):
        part.load_state_dict(state)
    assert second[1].gossip.round == 50
    assert train(second, range(50, 70)) == expected


def test_a_saved_state_is_safe_to_load_and_loads_into_a_plain_optimizer(here, tmp_path):
    module = model()
    optimizer = wrap(module, OPTIMIZERS["adam"](module.parameters()))
    backward(module, 0)
    optimizer.step()
    torch.save(optimizer.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    plain = OPTIMIZERS["adam"](model().parameters())
    plain.load_state_dict(state)
    assert plain.state_dict()["state"].keys() == state["state"].keys()


def test_hooks_schedulers_and_groups_work_as_on_a_plain_optimizer(here):
    module, calls = model(), []
    groups = [
        {"params": module[0].parameters(), "lr": 0.5},
        {"params": [*module[1].parameters(), *module[4].parameters()]},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    early = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)  # made before wrapping
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    wrapped = wrap(module, optimizer)
    late = torch.optim.lr_scheduler.LambdaLR(wrapped, lambda step: 1.0)
    assert wrapped is optimizer
    for step in range(3):
        wrapped.zero_grad()
        backward(module, step)
        wrapped.step()
        early.step()
    late.step()
    assert calls == [1, 1, 1]
    assert wrapped.gossip.round == 3  # one exchange for a step, not one for each group
    wrapped.load_state_dict(wrapped.state_dict())
    backward(module, 9)
    wrapped.step()
    assert calls == [1, 1, 1, 1]


@pytest.mark.parametrize(("algorithm", "graph"), ALGORITHMS)
def test_gradient_scaler_skips_the_update_and_still_averages(here, algorithm, graph):
    """Rank 0 overflows at step 2: nobody hangs, and the replicas stay as near as their algorithm keeps them."""
    module = model()
    optimizer = wrap(module, OPTIMIZERS["momentum"](module.parameters()), algorithm, graph)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    for step in range(5):
        optimizer.zero_grad()
        inputs, labels = batch(step)
        loss = nn.functional.cross_entropy(module(inputs), labels)
        scaler.scale(loss).backward()
        if step == 2 and here.rank == 0:
            module[4].bias.grad.fill_(float("inf"))
        scaler.step(optimizer)
        scaler.update()
    assert optimizer.gossip.round == 5
    assert all(bool(p.isfinite().all()) for p in module.parameters())
    if algorithm == "allreduce" or graph == "complete":
        assert hvd.consensus_distance(module) < 1e-5


@pytest.mark.parametrize("unscale", [False, True])
@pytest.mark.parametrize(("algorithm", "graph"), ALGORITHMS)
def test_gradient_scaler_without_overflow_changes_nothing(here, algorithm, graph, unscale):
    """Scaling by a power of two and back is exact."""
    plain, ours = model(), model()
    pairs = [(m, wrap(m, OPTIMIZERS["momentum"](m.parameters()), algorithm, graph)) for m in (plain, ours)]
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for step in range(4):
        for module, optimizer in pairs:
            optimizer.zero_grad()
            inputs, labels = batch(100 * here.rank + step)
            loss = nn.functional.cross_entropy(module(inputs), labels)
            if module is plain:
                loss.backward()
                optimizer.step()
                continue
            scaler.scale(loss).backward()
            if unscale:  # Horovod's recipe for mixed precision
                optimizer.synchronize()
                scaler.unscale_(optimizer)
                with optimizer.skip_synchronize():
                    scaler.step(optimizer)
            else:
                scaler.step(optimizer)
            scaler.update()
    parameters_equal(plain, ours, exact=True)


@pytest.mark.parametrize(("algorithm", "graph"), ALGORITHMS)
def test_clipping_sees_the_norm_of_the_whole_gradient(here, algorithm, graph):
    module = model()
    optimizer = wrap(module, OPTIMIZERS["sgd"](module.parameters()), algorithm, graph)
    backward(module, here.rank)
    optimizer.synchronize()
    expected = torch.sqrt(sum(p.grad.double().square().sum() for p in module.parameters()))
    norm = nn.utils.clip_grad_norm_(module.parameters(), 0.01)
    torch.testing.assert_close(norm.double(), expected, rtol=1e-5, atol=0)
    if algorithm == "allreduce":
        assert len(set(here.comm.allgather(float(norm)))) == 1
    before = [p.detach().clone() for p in module.parameters()]
    with optimizer.skip_synchronize():
        optimizer.step()
    moved = torch.sqrt(sum((a - b).double().square().sum() for a, b in zip(before, module.parameters(), strict=True)))
    assert moved <= 0.05 * 0.01 * 1.01


def test_skipping_what_was_not_done_is_refused(here):
    module = model()
    optimizer = wrap(module, OPTIMIZERS["sgd"](module.parameters()), "allreduce")
    with pytest.raises(ValueError, match=r"call optimizer\.synchronize\(\) first"), optimizer.skip_synchronize():
        pass


@pytest.mark.parametrize(("algorithm", "graph"), ALGORITHMS)
def test_accumulated_gradients_are_one_step(here, algorithm, graph):
    plain, ours = model(), model()
    reference = wrap(plain, OPTIMIZERS["sgd"](plain.parameters()), algorithm, graph)
    accumulated = wrap(ours, OPTIMIZERS["sgd"](ours.parameters()), algorithm, graph, backward_passes_per_step=2)
    backward(plain, here.rank)
    for p in plain.parameters():
        p.grad.mul_(2)
    plain[1].load_state_dict(ours[1].state_dict())
    reference.step()
    ours.eval(), plain.eval()
    ours.train()
    backward(ours, here.rank)
    backward(ours, here.rank)
    accumulated.step()
    for a, b in zip(plain.parameters(), ours.parameters(), strict=True):
        assert torch.equal(a, b)


def test_sum_is_n_times_the_average(here):
    results = []
    for op in (hvd.Average, hvd.Sum):
        module = model()
        optimizer = wrap(module, OPTIMIZERS["sgd"](module.parameters()), "allreduce", op=op)
        backward(module, here.rank)
        optimizer.synchronize()
        results.append([p.grad.clone() for p in module.parameters()])
    for mean, total in zip(*results, strict=True):
        torch.testing.assert_close(mean * here.size, total)


def test_a_rank_without_a_batch_takes_part(here):
    """Ranks have different numbers of batches: the others neither wait for ever nor lose a batch."""
    for algorithm, graph in ALGORITHMS:
        module = model()
        optimizer = wrap(module, OPTIMIZERS["momentum"](module.parameters()), algorithm, graph)
        mine = 3 + here.rank
        for step in range(3 + here.size - 1):
            optimizer.zero_grad()
            if step < mine:
                backward(module, step)
            optimizer.step()
        if algorithm == "allreduce":
            assert hvd.consensus_distance(module) == 0


def test_two_models_with_two_optimizers_do_not_meet(here):
    """As in a GAN."""
    modules = [model(0), model(1)]
    optimizers = [
        wrap(m, OPTIMIZERS["adam"](m.parameters()), a, "complete")
        for m, a in zip(modules, ("dpsgd", "allreduce"), strict=True)
    ]
    for step in range(6):
        for index, (module, optimizer) in enumerate(zip(modules, optimizers, strict=True)):
            for _ in range(index + 1):
                optimizer.zero_grad()
                backward(module, step + 10 * here.rank)
                optimizer.step()
    assert [optimizer.gossip.round for optimizer in optimizers] == [6, 12]
    assert all(hvd.consensus_distance(module) < 1e-5 for module in modules)


def test_an_optimizer_that_calls_its_closure_often_is_the_plain_one_on_equal_data(here):
    """With weights 1/n, n a power of two, the average of equal replicas is exact: bit for bit for every n here."""
    plain, ours = model(), model()
    optimizers = [torch.optim.LBFGS(plain.parameters(), max_iter=4), torch.optim.LBFGS(ours.parameters(), max_iter=4)]
    wrap(ours, optimizers[1], "dpsgd", "complete")
    for module, optimizer in zip((plain, ours), optimizers, strict=True):

        def closure(module=module, optimizer=optimizer):
            optimizer.zero_grad()
            return backward(module, 0)

        losses = [float(optimizer.step(closure)) for _ in range(4)]
    assert losses[-1] < losses[0]
    parameters_equal(plain, ours, exact=True)


def test_a_closure_is_evaluated_once_where_the_gradient_comes_first(here):
    for algorithm in ("allreduce", "dpsgd:order=awc"):
        module, calls = model(), []
        optimizer = wrap(module, OPTIMIZERS["sgd"](module.parameters()), algorithm)
        loss = optimizer.step(lambda module=module, calls=calls: calls.append(1) or backward(module, here.rank))
        assert (calls, float(loss) > 0) == ([1], True)


def test_an_optimizer_that_needs_its_closure_is_refused_where_the_gradient_comes_first(here):
    module = model()
    optimizer = wrap(module, torch.optim.LBFGS(module.parameters()), "dpsgd:order=awc")
    with pytest.raises(ValueError, match="use algorithm='dpsgd:order=atc'"):
        optimizer.step(lambda: backward(module, 0))


def test_a_compiled_module_trains(here):
    """torch.compile keeps working on parameters that have become views."""
    plain, ours = model(), model()
    compiled = torch.compile(ours, backend="aot_eager")
    pairs = [(plain, plain), (compiled, ours)]
    optimizers = [wrap(m, OPTIMIZERS["momentum"](m.parameters())) for _, m in pairs]
    for step in range(4):
        for (called, _), optimizer in zip(pairs, optimizers, strict=True):
            optimizer.zero_grad()
            backward(called, step + 10 * here.rank)
            optimizer.step()
    parameters_equal(plain, ours, exact=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"graph": "rng"}, "did you mean 'ring'"),
        ({"algorithm": "dpsgd:order=x"}, "unknown order 'x'"),
        ({"backward_passes_per_step": 0}, "expected an integer of at least 1"),
        ({"op": hvd.Adasum}, "expected Average or Sum"),
        ({"op": hvd.Sum}, "gossip averages parameters"),
        ({"compression": torch.float64}, "parameters are sent as one of none, float16, bfloat16"),
        ({"compression": hvd.Compression.bf16, "algorithm": "allreduce"}, "sent as one of none, float16$"),
        ({"group_size": 5}, "got groups of 5 for"),
        ({"group_size": "nodes"}, "got groups of 'nodes' for"),
        ({"overlap": "model"}, "expected the model whose passes shall hide the exchange"),
        ({"process_set": 1}, "a communicator of the ranks"),
        ({"gradient_predivide_factor": 0.0}, "expected a positive number"),
        ({"named_parameters": [("a", torch.zeros(1))]}, "lacks 5 of the optimizer's 5 parameters"),
        ({"named_parameters": [("a", torch.zeros(1)), ("a", torch.ones(1))]}, "stands twice"),
        ({"algorithm": "allreduce", "allreduce": "gloo"}, "unknown allreduce 'gloo'"),
    ],
)
def test_mistakes_are_told_before_anything_is_sent(here, change, message):
    module = model()
    options = {"named_parameters": module.named_parameters(), **change}
    with pytest.raises(ValueError, match=message):
        hvd.DistributedOptimizer(OPTIMIZERS["sgd"](module.parameters()), **options)
    assert here.comm.allreduce(1) == here.size


def test_wrapping_twice_or_something_else_is_refused(here):
    module = model()
    optimizer = wrap(module, OPTIMIZERS["sgd"](module.parameters()))
    with pytest.raises(ValueError, match="distributed already"):
        wrap(module, optimizer)
    with pytest.raises(ValueError, match=r"expected a torch\.optim\.Optimizer"):
        hvd.DistributedOptimizer(module)


def test_models_that_differ_between_ranks_are_told(here):
    module = nn.Linear(3 + (here.rank == here.size - 1 > 0), 2)
    if here.size == 1:
        wrap(module, OPTIMIZERS["sgd"](module.parameters()))
        return
    with pytest.raises(ValueError, match="trained parameters .* differs between ranks: rank 0 has"):
        wrap(module, OPTIMIZERS["sgd"](module.parameters()))


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch looks at what a compiled function returns
def test_a_compiled_training_step_calls_the_optimizer_as_it_is(here):
    module = model()
    optimizer = wrap(module, OPTIMIZERS["sgd"](module.parameters()), "dpsgd", "complete")

    @torch.compile(backend="eager")
    def training_step(inputs, labels):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(inputs), labels)
        loss.backward()
        optimizer.step()
        return loss

    for step in range(3):
        training_step(*batch(10 * here.rank + step))
    assert optimizer.gossip.round == 3
    assert hvd.consensus_distance(module) < 1e-6


def test_copies_are_refused_and_say_what_to_copy(here):
    import pickle

    module = model()
    optimizer = wrap(module, OPTIMIZERS["sgd"](module.parameters()))
    for copier in (copy.deepcopy, copy.copy, pickle.dumps):
        with pytest.raises(ValueError, match=r"copy or save its state_dict\(\)"):
            copier(optimizer)
    assert pickle.loads(pickle.dumps(optimizer.state_dict())) == optimizer.state_dict()


@pytest.mark.parametrize("options", [{"group_size": "node"}, {"compression": hvd.Compression.bf16}])
def test_groups_and_rounded_parameters_train(here, options):
    """A node whose ranks hold their mean is one replica; rounding moves nothing where replicas agree."""
    module = model()
    optimizer = wrap(module, OPTIMIZERS["sgd"](module.parameters()), "dpsgd", "complete", **options)
    for step in range(4):
        optimizer.zero_grad()
        backward(module, step + 10 * here.rank)
        optimizer.step()
    assert hvd.consensus_distance(module) < (1e-6 if "group_size" in options else 0.05)
