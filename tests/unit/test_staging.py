"""Vectors outside of main memory; what needs a device says so, the rest pretends that there is one."""

from __future__ import annotations

import pytest
import torch

from hvd_gossip.comm import staging
from hvd_gossip.comm.staging import Staging, cuda_aware


@pytest.fixture
def pretended(monkeypatch):
    """Main memory taken for that of a device."""
    monkeypatch.setattr(staging, "elsewhere", lambda vector: True)


@pytest.fixture
def environment(monkeypatch):
    cuda_aware.cache_clear()
    yield monkeypatch
    cuda_aware.cache_clear()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("length", [0, 1, 7])
def test_values_go_through_memory_of_their_own_and_come_back(pretended, dtype, length):
    x = torch.arange(length).to(dtype)
    staged = Staging()
    with staged(x) as values:
        assert values.data_ptr() != x.data_ptr() or not length
        assert torch.equal(values, x)
        values.mul_(2)
    assert torch.equal(x, 2 * torch.arange(length).to(dtype))


def test_the_result_may_go_elsewhere(pretended):
    x, out = torch.ones(3), torch.zeros(3)
    with Staging()(x, out) as values:
        values.add_(1)
    assert (x.tolist(), out.tolist()) == ([1.0] * 3, [2.0] * 3)


def test_memory_is_kept_from_call_to_call(pretended):
    staged, places = Staging(), set()
    for length in (8, 3, 8, 5):
        with staged(torch.ones(length)) as values:
            places.add(values.data_ptr())
    assert len(places) == 1


def test_an_error_inside_leaves_the_vector_as_it_was(pretended):
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="lost"), Staging()(x) as values:
        values.zero_()
        raise RuntimeError("lost")
    assert x.tolist() == [1.0] * 3


@pytest.mark.parametrize(("told", "expected"), [("0", False), ("1", True)])
def test_the_environment_says_whether_mpi_takes_cuda_memory(environment, told, expected):
    environment.setenv("HVD_GOSSIP_CUDA_AWARE", told)
    assert cuda_aware() is expected


def test_other_words_in_the_environment_are_refused(environment):
    environment.setenv("HVD_GOSSIP_CUDA_AWARE", "yes")
    with pytest.raises(ValueError, match="HVD_GOSSIP_CUDA_AWARE = 'yes': expected 1"):
        cuda_aware()


def test_mpi_is_asked_where_the_environment_is_silent(environment):
    environment.delenv("HVD_GOSSIP_CUDA_AWARE", raising=False)
    environment.setattr(staging, "asks_mpi", lambda: True)
    assert cuda_aware()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_device_goes_through_page_locked_memory():
    x = torch.arange(5.0, device="cuda")
    with Staging()(x, anyway=True) as values:
        assert values.is_pinned()
        values.mul_(2)
    assert x.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
