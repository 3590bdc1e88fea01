"""The memory of what compressors leave out: nothing is lost, and a resumed run goes on exactly."""

from __future__ import annotations

import math

import pytest
import torch

from hvd_gossip.comm.compress import ErrorFeedback

NAMES = ["none", "bf16", "fp16", "top_k:fraction=0.2", "random_k:fraction=0.2", "sign", "low_rank:rank=2"]


def vector(length: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    drawn_in = torch.complex128 if dtype.is_complex else torch.float64
    return torch.randn(length, generator=torch.Generator().manual_seed(seed), dtype=drawn_in).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_what_was_sent_and_the_residual_make_up_what_was_given(name: str, dtype: torch.dtype) -> None:
    feedback, given_, sent = ErrorFeedback(name), torch.zeros(321, dtype=dtype), torch.zeros(321, dtype=dtype)
    for t in range(50):
        x = vector(321, t, dtype)
        given_ += x
        sent += feedback.compressor.decode(feedback.encode(x, t), torch.empty_like(x), t)
    assert feedback.residual is not None
    torch.testing.assert_close(sent + feedback.residual, given_, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_the_residual_of_short_numbers_keeps_what_rounding_leaves(name: str, dtype: torch.dtype) -> None:
    feedback, given_, sent = ErrorFeedback(name), torch.zeros(100).double(), torch.zeros(100).double()
    for t in range(50):
        x = vector(100, t, dtype)
        given_ += x
        sent += feedback.compressor.decode(feedback.encode(x, t), torch.empty_like(x), t)
    assert feedback.residual is not None
    assert feedback.residual.dtype == torch.float32
    torch.testing.assert_close(sent + feedback.residual, given_, rtol=0, atol=1e-3)


def test_error_feedback_sends_everything_in_the_end() -> None:
    """Of one vector given once, repeated top-k of what is left sends every entry."""
    feedback, x = ErrorFeedback("top_k:fraction=0.1"), vector(200, 5, torch.float64)
    sent = feedback.compressor.decode(feedback.encode(x, 0), torch.empty_like(x), 0).clone()
    for t in range(9):
        sent += feedback.compressor.decode(feedback.encode(torch.zeros_like(x), t), torch.empty_like(x), t)
    assert torch.equal(sent, x)


@pytest.mark.parametrize("rounds", [100, 1000])
def test_with_error_feedback_the_mean_of_what_is_sent_converges(rounds: int) -> None:
    """||e|| <= sqrt(1 - delta)/(1 - sqrt(1 - delta)) ||x|| for a constant x; thus the mean errs by as much over T."""
    feedback, x = ErrorFeedback("top_k:fraction=0.1"), vector(200, 5, torch.float64)
    sent = torch.zeros_like(x)
    for t in range(rounds):
        sent += feedback.compressor.decode(feedback.encode(x, t), torch.empty_like(x), t)
    rate = math.sqrt(1 - 0.1)
    assert float((sent / rounds - x).norm()) <= rate / (1 - rate) * float(x.norm()) / rounds + 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_resumed_memory_goes_on_exactly(dtype: torch.dtype) -> None:
    one, other = ErrorFeedback("sign"), ErrorFeedback("sign")
    assert one.state() == {}
    other.load({})
    one.encode(vector(50, 1, dtype), 0)
    other.load(one.state())
    for t in (1, 2):
        assert torch.equal(one.encode(vector(50, t, dtype), t), other.encode(vector(50, t, dtype), t))
    assert one.residual is not other.residual
    assert torch.equal(one.state()["residual"], other.state()["residual"])


def test_what_was_saved_does_not_change() -> None:
    one, other = ErrorFeedback("sign"), ErrorFeedback("sign")
    one.encode(vector(50), 0)
    saved = one.state()
    kept = saved["residual"].clone()
    other.load(saved)
    for feedback in (one, other):
        feedback.encode(vector(50, 1), 1)
        assert torch.equal(saved["residual"], kept)


def test_the_memory_refuses_what_does_not_fit() -> None:
    feedback = ErrorFeedback("sign")
    feedback.encode(vector(5), 0)
    with pytest.raises(ValueError, match="got 6 numbers of torch.float32: expected 5"):
        feedback.encode(vector(6), 0)
    with pytest.raises(
        ValueError, match=r"got 5 numbers of torch.float64: expected 5 whose residual is of torch.float32"
    ):
        feedback.encode(vector(5).double(), 0)
    with pytest.raises(ValueError, match="got keys"):
        feedback.load({"memory": vector(5)})
    with pytest.raises(ValueError, match="expected a contraction"):
        ErrorFeedback("random_k:unbiased=true")
