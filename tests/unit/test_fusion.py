"""Flat parameters: views of aligned buffers that keep values, shapes, strides and ties, or a clear refusal."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn

from hvd_gossip.comm.fusion import FlatParameters

ALIGNMENT = 64  # bytes, as torch aligns its own allocations
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64)


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def kinds(dtype: torch.dtype) -> list[Tensor]:
    """Parameters of every memory format: plain, scalar, empty, transposed, channels-last, permuted, one element."""
    return [
        random(5, 3, dtype=dtype),
        random(dtype=dtype),
        torch.empty(0, 4, dtype=dtype),
        random(7, 4, dtype=dtype).t(),
        random(2, 3, 4, 5, dtype=dtype).to(memory_format=torch.channels_last),
        random(2, 1, 4, 5, dtype=dtype).to(memory_format=torch.channels_last),
        random(2, 3, 4, dtype=dtype).permute(2, 0, 1),
        random(1, dtype=dtype),
        random(64, dtype=dtype),
    ]


def check_fused(parameters: list[nn.Parameter], fuse: Callable[[], FlatParameters]) -> FlatParameters:
    """Values, shapes, strides and flags stay; each parameter lies aligned inside a buffer of its dtype."""
    before = [(p.detach().clone(), p.shape, p.stride(), p.dtype, p.requires_grad, p.is_leaf) for p in parameters]
    flat = fuse()
    assert flat.intact(parameters)
    for parameter, (value, *described) in zip(parameters, before, strict=True):
        assert [
            parameter.shape,
            parameter.stride(),
            parameter.dtype,
            parameter.requires_grad,
            parameter.is_leaf,
        ] == described
        assert torch.equal(parameter.detach(), value)
        if parameter.numel():
            (home,) = [
                b for b in flat.buffers if b.untyped_storage().data_ptr() == parameter.untyped_storage().data_ptr()
            ]
            assert home.dtype == parameter.dtype
            assert parameter.data_ptr() % ALIGNMENT == 0
    for buffer in flat.buffers:
        assert buffer.dim() == 1
        assert buffer.is_contiguous()
    return flat


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_memory_format_of_every_dtype(dtype: torch.dtype) -> None:
    parameters = [nn.Parameter(tensor) for tensor in kinds(dtype)]
    flat = check_fused(parameters, lambda: FlatParameters(parameters))
    assert [buffer.dtype for buffer in flat.buffers] == [dtype]


def test_views_alias_the_buffer_in_both_directions() -> None:
    parameters = [nn.Parameter(tensor) for dtype in DTYPES for tensor in kinds(dtype)]
    flat = FlatParameters(parameters)
    for number, buffer in enumerate(flat.buffers):
        buffer.fill_(number + 1)
    numbers = {buffer.dtype: number + 1 for number, buffer in enumerate(flat.buffers)}
    assert all((p.detach() == numbers[p.dtype]).all() for p in parameters)
    with torch.no_grad():
        for buffer in flat.buffers:
            buffer.zero_()
        for parameter in parameters:
            parameter.add_(1)
    # Every element of every parameter has a place of its own, and the gaps still hold zeros.
    for buffer in flat.buffers:
        members = [p for p in parameters if p.dtype == buffer.dtype]
        assert (buffer == 1).sum() == sum(p.numel() for p in members)
        assert ((buffer == 1) | (buffer == 0)).all()


def test_gaps_hold_zeros_and_dtypes_have_a_buffer_each() -> None:
    parameters = [nn.Parameter(random(3, dtype=dtype)) for dtype in (*DTYPES, *DTYPES)]
    flat = FlatParameters(parameters)
    assert [buffer.dtype for buffer in flat.buffers] == list(DTYPES)
    assert all(int((buffer != 0).sum()) == 6 for buffer in flat.buffers)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=12), st.sampled_from(DTYPES))
def test_any_shapes(shapes: list[list[int]], dtype: torch.dtype) -> None:
    parameters = [nn.Parameter(random(*shape, dtype=dtype)) for shape in shapes]
    flat = check_fused(parameters, lambda: FlatParameters(parameters))
    assert len(flat.buffers) == min(1, len(shapes))


def test_frozen_parameters_stay_frozen_and_gradients_stay() -> None:
    parameters = [nn.Parameter(random(3, 2)), nn.Parameter(random(4), requires_grad=False)]
    parameters[0].grad = random(3, 2)
    gradient = parameters[0].grad
    check_fused(parameters, lambda: FlatParameters(parameters))
    assert parameters[0].grad is gradient


def test_the_same_parameter_given_twice_has_one_place() -> None:
    parameter = nn.Parameter(random(100))
    flat = check_fused([parameter, parameter], lambda: FlatParameters([parameter, parameter]))
    assert 100 <= flat.buffers[0].numel() < 100 + ALIGNMENT


def test_two_parameters_with_one_memory_stay_tied() -> None:
    first = nn.Parameter(random(10, 10))
    second = nn.Parameter(first.detach())
    flat = check_fused([first, second], lambda: FlatParameters([first, second]))
    assert flat.buffers[0].numel() < 200
    with torch.no_grad():
        first.fill_(3)
    assert (second == 3).all()


@pytest.mark.parametrize("form", [Tensor.t, Tensor.flatten])
def test_one_memory_in_two_forms_stays_tied_or_is_refused(form: Callable[[Tensor], Tensor]) -> None:
    """An autoencoder that decodes with the transposed weight must not come apart in silence."""
    first = nn.Parameter(random(6, 6))
    second = nn.Parameter(form(first.detach()))
    try:
        FlatParameters([first, second])
    except ValueError as error:
        assert "memory" in str(error)
    with torch.no_grad():
        first.fill_(3)
    assert (second == 3).all()


def test_parts_of_one_memory_side_by_side_are_fine() -> None:
    memory = random(30)
    parameters = [nn.Parameter(memory[:10]), nn.Parameter(memory[10:].view(4, 5))]
    check_fused(parameters, lambda: FlatParameters(parameters))


@pytest.mark.parametrize("second", [slice(5, 15), slice(0, 5), slice(3, 6)])
@pytest.mark.parametrize("order", [1, -1])
def test_a_partial_overlap_is_refused_and_nothing_moves(second: slice, order: int) -> None:
    memory = random(20)
    parameters = [nn.Parameter(memory[:10]), nn.Parameter(memory[second])][::order]
    with pytest.raises(ValueError, match="two parameters share a part of their memory: tie whole parameters"):
        FlatParameters(parameters)
    assert all(p.untyped_storage().data_ptr() == memory.untyped_storage().data_ptr() for p in parameters)


def test_a_lazy_parameter_is_refused() -> None:
    lazy = nn.LazyLinear(3)
    with pytest.raises(ValueError, match="lazy parameter without a shape: run the model on one batch before wrapping"):
        FlatParameters(list(lazy.parameters()))
    lazy(torch.zeros(2, 5))
    check_fused(list(lazy.parameters()), lambda: FlatParameters(list(lazy.parameters())))


def test_a_sparse_parameter_is_refused() -> None:
    with pytest.raises(ValueError, match=r"layout torch\.sparse_coo: expected dense parameters"):
        FlatParameters([nn.Parameter(torch.eye(3).to_sparse())])


CHANGES: dict[str, tuple[Callable[[nn.Module], object], bool]] = {
    "nothing": (lambda model: None, True),
    "to the same device": (lambda model: model.to("cpu"), True),
    "to another dtype": (lambda model: model.to(torch.float64), False),
    "half": (lambda model: model.half(), False),
    "load_state_dict": (lambda model: model.load_state_dict(nn.Linear(4, 3).state_dict()), True),
    "load_state_dict by assignment": (lambda m: m.load_state_dict(nn.Linear(4, 3).state_dict(), assign=True), False),
    "data replaced": (lambda model: setattr(model.weight, "data", torch.zeros(3, 4)), False),
    "parameter replaced": (lambda model: setattr(model, "bias", nn.Parameter(torch.zeros(3))), False),
    "trained": (lambda model: torch.optim.SGD(model.parameters(), 0.1).step(), True),
}


@pytest.mark.parametrize("name", CHANGES)
def test_intact_tells_when_parameters_were_replaced(name: str) -> None:
    change, intact = CHANGES[name]
    model = nn.Linear(4, 3)
    flat = FlatParameters(list(model.parameters()))
    model(torch.ones(2, 4)).sum().backward()
    change(model)
    assert flat.intact(list(model.parameters())) is intact


def test_intact_means_exactly_these_parameters() -> None:
    one, two, three = (nn.Parameter(random(3)) for _ in range(3))
    flat = FlatParameters([one, two])
    assert flat.intact([one, two])
    assert not any(flat.intact(others) for others in ([one], [two, one], [one, two, three], [one, three], []))
