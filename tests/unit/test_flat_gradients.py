"""Flat gradients: gathered and given back with values, layout, absence and sparsity."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from hvd_gossip.comm.fusion import FlatGradients

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64)


def parameters_of(dtype: torch.dtype) -> list[nn.Parameter]:
    """Plain, scalar, empty, transposed and channels-last parameters, zero."""
    return [
        nn.Parameter(tensor)
        for tensor in (
            torch.zeros(5, 3, dtype=dtype),
            torch.zeros((), dtype=dtype),
            torch.zeros(0, 4, dtype=dtype),
            torch.zeros(7, 4, dtype=dtype).t(),
            torch.zeros(2, 3, 4, 5, dtype=dtype).to(memory_format=torch.channels_last),
        )
    ]


def give_gradients(parameters: list[nn.Parameter]) -> list[Tensor]:
    """Random gradients, each in its parameter's layout; returns copies."""
    generator = torch.Generator().manual_seed(0)
    for parameter in parameters:
        parameter.grad = torch.empty_like(parameter).copy_(torch.randn(parameter.shape, generator=generator))
    return [parameter.grad.clone() for parameter in parameters if parameter.grad is not None]


def grads(parameters: list[nn.Parameter]) -> list[Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_come_back_as_aligned_views(dtype: torch.dtype) -> None:
    parameters = parameters_of(dtype)
    before = give_gradients(parameters)
    flat = FlatGradients(parameters)
    (buffer,) = flat.gather()
    assert buffer.dtype == dtype
    assert buffer.dim() == 1
    flat.scatter()
    for parameter, gradient, value in zip(parameters, grads(parameters), before, strict=True):
        assert torch.equal(gradient, value)
        assert (gradient.shape, gradient.stride()) == (parameter.shape, parameter.stride())
        if gradient.numel():
            assert gradient.untyped_storage().data_ptr() == buffer.untyped_storage().data_ptr()
            assert gradient.data_ptr() % 64 == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_done_to_the_buffers_is_done_to_the_gradients(dtype: torch.dtype) -> None:
    parameters = parameters_of(dtype)
    before = give_gradients(parameters)
    flat = FlatGradients(parameters)
    for buffer in flat.gather():
        buffer.mul_(2)
    flat.scatter()
    assert all(torch.equal(gradient, 2 * value) for gradient, value in zip(grads(parameters), before, strict=True))


def test_dtypes_have_a_buffer_each() -> None:
    parameters = [parameter for dtype in DTYPES for parameter in parameters_of(dtype)]
    before = give_gradients(parameters)
    flat = FlatGradients(parameters)
    assert [buffer.dtype for buffer in flat.gather()] == list(DTYPES)
    flat.scatter()
    assert all(torch.equal(gradient, value) for gradient, value in zip(grads(parameters), before, strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_parameter_without_gradient_keeps_none(dtype: torch.dtype) -> None:
    parameters = parameters_of(dtype)
    flat = FlatGradients(parameters)
    for present in (set(), {0, 3}, {1, 2, 4}, set(range(5))):
        give_gradients(parameters)
        for index, parameter in enumerate(parameters):
            parameter.grad = parameter.grad if index in present else None
        flat.gather()
        flat.scatter()
        assert {index for index, parameter in enumerate(parameters) if parameter.grad is not None} == present


def test_absent_gradients_are_zeros_and_leave_no_old_values() -> None:
    parameter = nn.Parameter(torch.zeros(3))
    flat = FlatGradients([parameter])
    parameter.grad = torch.ones(3)
    flat.gather()
    parameter.grad = None
    (buffer,) = flat.gather()
    assert not buffer.any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 4096])
def test_a_gradient_that_one_replica_of_many_has_reaches_all(dtype: torch.dtype, n: int) -> None:
    """The mean over n replicas of which one has a gradient: 1/n of its values, here and where it was None."""
    here, there = nn.Parameter(torch.zeros(3, dtype=dtype)), nn.Parameter(torch.zeros(3, dtype=dtype))
    here.grad = torch.tensor([1, 2, 4], dtype=dtype)
    with_gradient, without = FlatGradients([here]), FlatGradients([there])
    for buffer, other in zip(with_gradient.gather(), without.gather(), strict=True):
        mean = (buffer + (n - 1) * other) / n
        buffer.copy_(mean)
        other.copy_(mean)
    with_gradient.scatter()
    without.scatter()
    assert here.grad is not None
    assert there.grad is not None
    expected = torch.tensor([1, 2, 4], dtype=dtype) / n
    assert torch.equal(here.grad, expected)
    assert torch.equal(there.grad, expected)


def embedding_gradient(rows: list[int]) -> tuple[nn.Parameter, Tensor]:
    """An embedding's weight with a sparse gradient of these rows, some perhaps twice; and the gradient, dense."""
    layer = nn.Embedding(10, 4, sparse=True)
    weights = torch.arange(1.0, 4 * len(rows) + 1).view(-1, 4)
    (layer(torch.tensor(rows)) * weights).sum().backward()
    (weight,) = layer.parameters()
    assert weight.grad is not None
    assert weight.grad.is_sparse
    return weight, weight.grad.to_dense()


@pytest.mark.parametrize("rows", [[2], [7, 1], [3, 3, 0, 3], list(range(10))])
def test_sparse_gradients_come_back_sparse(rows: list[int]) -> None:
    weight, expected = embedding_gradient(rows)
    dense = nn.Parameter(torch.zeros(2))
    dense.grad = torch.ones(2)
    flat = FlatGradients([dense, weight])
    flat.gather()
    flat.scatter()
    assert weight.grad is not None
    assert weight.grad.is_sparse
    assert sorted(weight.grad.coalesce().indices()[0].tolist()) == sorted(set(rows))
    assert torch.equal(weight.grad.to_dense(), expected)
    assert dense.grad is not None
    assert not dense.grad.is_sparse
    optimizer, before = torch.optim.SGD([weight], lr=1.0), weight.detach().clone()
    optimizer.step()
    torch.testing.assert_close(weight.detach(), before - expected)


def test_a_sparse_gradient_elsewhere_makes_it_sparse_here() -> None:
    weight, expected = embedding_gradient([1, 4])
    other = nn.Parameter(torch.zeros(10, 4))
    flat, elsewhere = FlatGradients([weight]), FlatGradients([other])
    (mean,) = flat.gather()
    elsewhere.gather()[0].copy_(mean / 2)
    elsewhere.scatter()
    assert other.grad is not None
    assert other.grad.is_sparse
    assert torch.equal(other.grad.to_dense(), expected / 2)


def test_gathering_again_after_backward_into_the_views() -> None:
    """The second backward adds to the views in place, as training without zero_grad(set_to_none=True) does."""
    model = nn.Linear(3, 2)
    flat = FlatGradients(list(model.parameters()))
    inputs = torch.arange(6.0).view(2, 3)
    for times in (1, 2, 3):
        model(inputs).sum().backward()
        flat.gather()
        flat.scatter()
        assert model.weight.grad is not None
        assert torch.equal(model.weight.grad, times * inputs.sum(dim=0).expand(2, -1))


def test_a_parameter_given_twice_and_empty_lists() -> None:
    parameter = nn.Parameter(torch.zeros(3))
    parameter.grad = torch.tensor([1.0, 2, 3])
    flat = FlatGradients([parameter, parameter])
    flat.gather()
    flat.scatter()
    assert parameter.grad.tolist() == [1, 2, 3]
    assert FlatGradients([]).gather() == []
