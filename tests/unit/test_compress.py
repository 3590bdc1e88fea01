"""Compressors: contractions of known size, what they keep, and the memory of what they leave out."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st

from hvd_gossip.comm.compress import COMPRESSORS, Compressor, ErrorFeedback, RandomK, compressor

NAMES = ["none", "bf16", "fp16", "top_k:fraction=0.2", "random_k:fraction=0.2", "sign", "low_rank:rank=2"]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
LENGTHS = [0, 1, 2, 7, 8, 9, 100, 1000]


def vector(length: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(length, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def compressed(c: Compressor, x: torch.Tensor, seed: int = 3) -> torch.Tensor:
    return c.decode(c.encode(x, seed), torch.full_like(x, 7.0), seed)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_bytes_are_known_beforehand_and_the_vector_stays(name: str, dtype: torch.dtype) -> None:
    c = compressor(name)
    for length in LENGTHS:
        x = vector(length, length, dtype)
        kept, payload = x.clone(), c.encode(x, 1)
        assert payload.dtype == torch.uint8
        assert payload.numel() == c.nbytes(length, dtype)
        assert torch.equal(x, kept)
        assert compressed(c, x).dtype == dtype


def test_bytes_are_these() -> None:
    sizes = {name: compressor(name).nbytes(1000, torch.float32) for name in NAMES}
    assert list(sizes.values()) == [4000, 2000, 2000, 200 * 8, 200 * 4, 125 + 4, (32 + 32) * 2 * 4]


@settings(deadline=None, max_examples=60)
@given(name=st.sampled_from(NAMES), length=st.integers(1, 300), seed=st.integers(0, 10_000))
def test_each_is_a_contraction(name: str, length: int, seed: int) -> None:
    x = vector(length, seed, torch.float64)
    left = float((x - compressed(compressor(name), x, seed)).square().sum())
    assert left <= float(x.square().sum()) * (1 + 1e-9)


@settings(deadline=None, max_examples=40)
@given(length=st.integers(1, 300), seed=st.integers(0, 10_000))
def test_top_k_leaves_no_more_than_its_share_and_sign_exactly_its_share(length: int, seed: int) -> None:
    x = vector(length, seed, torch.float64)
    total = float(x.square().sum())
    top = compressor("top_k:fraction=0.3")
    assert float((x - compressed(top, x)).square().sum()) <= (1 - math.ceil(0.3 * length) / length) * total + 1e-12
    delta = float(x.abs().sum() ** 2 / (length * total))
    assert float((x - compressed(compressor("sign"), x)).square().sum()) == pytest.approx((1 - delta) * total, abs=1e-9)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("low_rank")])
def test_what_is_compressed_already_stays(name: str) -> None:
    once = compressed(compressor(name), vector(777))
    assert torch.allclose(compressed(compressor(name), once), once, rtol=1e-6, atol=0)


def test_top_k_keeps_the_largest() -> None:
    x = torch.tensor([0.1, -5.0, 3.0, 0.0, -0.2])
    assert compressed(compressor("top_k:fraction=0.4"), x).tolist() == [0.0, -5.0, 3.0, 0.0, 0.0]


def test_random_k_without_bias_is_right_on_average() -> None:
    """Each entry is drawn with probability 1/width and multiplied by the width: the mean over seeds is x."""
    c, x, seeds = RandomK(0.1, unbiased=True), vector(50, 1, torch.float64), 4000
    mean = sum(compressed(c, x, seed) for seed in range(seeds)) / seeds
    deviation = x.abs() * math.sqrt((10 - 1) / seeds)
    assert ((mean - x).abs() <= 5 * deviation).all()


def test_random_k_draws_the_same_everywhere_and_others_in_other_rounds() -> None:
    one, other = (compressed(RandomK(0.1), torch.ones(1000), seed) for seed in (1, 2))
    assert torch.equal(one, compressed(RandomK(0.1), torch.ones(1000), 1))
    assert int(one.sum()) == 100
    assert not torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_matrix_of_that_rank_comes_back(dtype: torch.dtype) -> None:
    matrix = vector(60, 1, dtype).view(30, 2) @ vector(60, 2, dtype).view(2, 30)
    found = compressed(compressor("low_rank:rank=2"), matrix.flatten())
    assert torch.allclose(found, matrix.flatten(), atol=1e-3 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("random_k")])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_not_hidden(name: str, bad: float) -> None:
    x = vector(100)
    x[17] = bad
    assert not bool(compressed(compressor(name), x).isfinite().all())


@pytest.mark.parametrize("name", NAMES)
def test_what_was_sent_and_the_residual_make_up_what_was_given(name: str) -> None:
    feedback, given_, sent = ErrorFeedback(name), torch.zeros(321, dtype=torch.float64), torch.zeros(321)
    sent = sent.double()
    for t in range(50):
        x = vector(321, t, torch.float64)
        given_ += x
        sent += feedback.compressor.decode(feedback.encode(x, t), torch.empty_like(x), t)
    assert feedback.residual is not None
    torch.testing.assert_close(sent + feedback.residual, given_, rtol=0, atol=1e-12)


def test_error_feedback_sends_everything_in_the_end() -> None:
    """Of one vector given once, repeated top-k of what is left sends every entry."""
    feedback, x = ErrorFeedback("top_k:fraction=0.1"), vector(200, 5, torch.float64)
    sent = feedback.compressor.decode(feedback.encode(x, 0), torch.empty_like(x), 0).clone()
    for t in range(9):
        sent += feedback.compressor.decode(feedback.encode(torch.zeros_like(x), t), torch.empty_like(x), t)
    assert torch.equal(sent, x)


def test_a_resumed_memory_goes_on_exactly() -> None:
    one, other = ErrorFeedback("sign"), ErrorFeedback("sign")
    one.encode(vector(50), 0)
    other.load_state_dict({"residual": one.state_dict()["residual"].clone()})
    assert torch.equal(one.encode(vector(50, 2), 1), other.encode(vector(50, 2), 1))


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ("topk", "did you mean 'top_k'"),
        ("top_k:k=3", "unknown option of compressor 'top_k' 'k'"),
        ("top_k:fraction=0", "above 0 and at most 1"),
        ("top_k:fraction=1.5", "above 0 and at most 1"),
        ("random_k:fraction=-1", "above 0 and at most 1"),
        ("random_k:fraction=nan", "above 0 and at most 1|expected"),
        ("low_rank:rank=0", "an integer of at least 1"),
        ("low_rank:rank=1.5", "an integer of at least 1"),
    ],
)
def test_mistakes_are_told(told: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compressor(told)


def test_the_table_names_all() -> None:
    assert {name.partition(":")[0] for name in NAMES} == set(COMPRESSORS)


def test_numbers_too_large_for_float16_become_its_largest() -> None:
    x = torch.tensor([1e6, -1e6, 1.0])
    assert compressed(compressor("fp16"), x).tolist() == [65504.0, -65504.0, 1.0]
