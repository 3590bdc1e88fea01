"""Compressors: contractions of known size, and what they keep."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from hvd_gossip.comm.compress import COMPRESSORS, Compressor, RandomK, Rounding, TopK, compressor

NAMES = ["none", "bf16", "fp16", "top_k:fraction=0.2", "random_k:fraction=0.2", "sign", "low_rank:rank=2"]
REAL = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
DTYPES = [*REAL, torch.complex64, torch.complex128]
LENGTHS = [0, 1, 2, 7, 8, 9, 1000]


def vector(length: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    drawn_in = torch.complex128 if dtype.is_complex else torch.float64
    return torch.randn(length, generator=torch.Generator().manual_seed(seed), dtype=drawn_in).to(dtype)


def compressed(c: Compressor, x: torch.Tensor, seed: int = 3) -> torch.Tensor:
    return c.decode(c.encode(x, seed), torch.full_like(x, 7.0), seed)


def square(x: torch.Tensor) -> float:
    return float(x.to(torch.complex128 if x.is_complex() else torch.float64).abs().square().sum())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_bytes_are_known_beforehand_and_the_vector_stays(name: str, dtype: torch.dtype) -> None:
    c = compressor(name)
    for length in LENGTHS:
        x = vector(length, length, dtype)
        kept, payload = x.clone(), c.encode(x, 1)
        assert payload.dtype == torch.uint8
        assert payload.numel() == c.nbytes(length, dtype)
        before, out = payload.clone(), torch.full_like(x, 7.0)
        assert c.decode(payload, out, 1) is out
        assert torch.equal(x, kept)
        assert torch.equal(payload, before)
        payload.zero_()
        assert torch.equal(x, kept)


def test_bytes_are_these() -> None:
    def sizes(dtype: torch.dtype) -> list[int]:
        return [compressor(name).nbytes(1000, dtype) for name in NAMES]

    assert sizes(torch.float32) == [4000, 2000, 2000, 200 * 8, 200 * 4, 125 + 4, (32 + 32) * 2 * 4]
    assert sizes(torch.float64) == [8000, 2000, 2000, 200 * 12, 200 * 8, 125 + 8, (32 + 32) * 2 * 8]
    assert sizes(torch.bfloat16) == [2000, 2000, 2000, 200 * 6, 200 * 2, 125 + 4, (32 + 32) * 2 * 4]
    assert sizes(torch.complex64) == [8000, 4000, 4000, 400 * 8, 400 * 4, 250 + 4, (45 + 45) * 2 * 4]
    assert TopK(1e-9).nbytes(2**31, torch.float32) == 3 * (4 + 8)


@pytest.mark.parametrize("name", NAMES)
def test_payloads_may_lie_anywhere_in_a_larger_buffer(name: str) -> None:
    c, x = compressor(name), vector(77)
    payload = c.encode(x, 3)
    larger = torch.cat([torch.zeros(1, dtype=torch.uint8), payload])
    assert torch.equal(c.decode(larger[1:], torch.empty(77), 3), compressed(c, x))


@settings(deadline=None, max_examples=120)
@given(
    name=st.sampled_from(NAMES),
    length=st.integers(1, 300),
    seed=st.integers(0, 10_000),
    dtype=st.sampled_from(DTYPES),
    scale=st.sampled_from([1.0, 1e-7, 1e4]),
)
def test_each_is_a_contraction(name: str, length: int, seed: int, dtype: torch.dtype, scale: float) -> None:
    x = (vector(length, seed, DTYPES[-1] if dtype.is_complex else torch.float64) * scale).to(dtype)
    # What is sent in 16 bits is rounded once more.
    slack = 1 + (0.02 if dtype.itemsize == 2 else 1e-5)
    assert square(x - compressed(compressor(name), x, seed)) <= square(x) * slack


@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_rounding_leaves_no_more_than_half_a_spacing(name: str) -> None:
    x = vector(1000, 2, torch.float64)
    spacing = torch.finfo({"bf16": torch.bfloat16, "fp16": torch.float16}[name]).eps
    assert square(x - compressed(compressor(name), x)) <= spacing**2 / 4 * square(x)


@settings(deadline=None, max_examples=40)
@given(length=st.integers(1, 300), seed=st.integers(0, 10_000))
def test_top_k_leaves_no_more_than_its_share_and_sign_exactly_its_share(length: int, seed: int) -> None:
    x = vector(length, seed, torch.float64)
    total = square(x)
    assert square(x - compressed(TopK(0.3), x)) <= (1 - TopK(0.3).count(length) / length) * total + 1e-12
    delta = float(x.abs().sum() ** 2 / (length * total))
    assert square(x - compressed(compressor("sign"), x)) == pytest.approx((1 - delta) * total, abs=1e-9)


@pytest.mark.parametrize("length", [33, 400])
def test_low_rank_leaves_what_its_projection_leaves(length: int) -> None:
    x = vector(length, 4, torch.float64)
    kept = compressed(compressor("low_rank:rank=3"), x)
    assert square(x - kept) <= square(x) - square(kept) + 1e-9
    assert 0 < square(kept) < square(x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("low_rank")])
def test_what_is_compressed_already_stays(name: str, dtype: torch.dtype) -> None:
    once = compressed(compressor(name), vector(777, 1, dtype))
    twice = compressed(compressor(name), once)
    # The mean of equal float64 numbers may differ from them in the last bits.
    exact = not (name == "sign" and dtype in (torch.float64, torch.complex128))
    torch.testing.assert_close(twice, once, rtol=0 if exact else 1e-14, atol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_two_encoders_with_one_seed_make_the_same_bytes(name: str, dtype: torch.dtype) -> None:
    x, c = vector(500, 9, dtype), compressor(name)
    payload = c.encode(x, 5)
    assert all(torch.equal(payload, other.encode(x.clone(), 5)) for other in (c, c, compressor(name)))
    assert torch.equal(compressed(c, x), compressed(compressor(name), x))


def test_none_gives_the_bytes_themselves() -> None:
    x = torch.tensor([math.nan, -0.0, math.inf, 1e-45])
    assert compressor("none").encode(x, 0).numpy().tobytes() == x.numpy().tobytes()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1.0, 1e-35, 1e30])
def test_a_matrix_of_that_rank_comes_back(dtype: torch.dtype, scale: float) -> None:
    matrix = (vector(60, 1, dtype).view(30, 2) @ vector(60, 2, dtype).view(2, 30)) * scale
    found = compressed(compressor("low_rank:rank=2"), matrix.flatten())
    torch.testing.assert_close(
        found / scale, matrix.flatten() / scale, rtol=0, atol=1e-3 if dtype == torch.float32 else 1e-11
    )


def test_low_rank_of_numbers_near_the_largest_is_finite() -> None:
    x = torch.full((10_000,), 3e37)
    for seed in range(10):
        torch.testing.assert_close(compressed(compressor("low_rank"), x, seed), x, rtol=1e-4, atol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_low_rank_of_nothing_or_next_to_it_is_finite(share: float, dtype: torch.dtype) -> None:
    """A number drawn above 4 divided by the smallest normal one is infinite; of these seeds, some draw one."""
    x = torch.full((10_000,), share * torch.finfo(dtype).tiny, dtype=dtype)
    for seed in range(60):
        found = compressed(compressor("low_rank"), x, seed)
        assert bool(found.isfinite().all())
        assert bool(found.any()) <= bool(x.any())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_not_hidden(name: str, bad: float, dtype: torch.dtype) -> None:
    for length in (1, 100):
        for place in (0, length // 2, length - 1):
            x = vector(length, 0, dtype)
            x[place] = bad
            assert not bool(compressed(compressor(name), x).isfinite().all())


def test_one_bad_number_marks_all_that_is_sent_where_so_documented() -> None:
    x = vector(100)
    x[17] = math.inf
    assert not compressed(compressor("sign"), x).isfinite().any()
    assert compressed(compressor("low_rank"), x).isnan().all()
    assert int(compressed(RandomK(0.2), x).isnan().sum()) == 20


def test_sign_of_zero_is_plus() -> None:
    assert compressed(compressor("sign"), torch.tensor([0.0, -0.0, -3.0])).tolist() == [1.0, 1.0, -1.0]


def test_sign_of_large_numbers_is_finite() -> None:
    x = torch.full((100,), torch.finfo(torch.float32).max)
    assert torch.equal(compressed(compressor("sign"), x), x)


@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_what_is_too_large_becomes_the_largest_number(name: str) -> None:
    largest_number = torch.finfo({"bf16": torch.bfloat16, "fp16": torch.float16}[name]).max
    x = torch.tensor([1e300, -1e300, 1.0, math.inf, -math.inf, math.nan], dtype=torch.float64)
    found = compressed(compressor(name), x)
    assert found[:5].tolist() == [largest_number, -largest_number, 1.0, math.inf, -math.inf]
    assert bool(found[5].isnan())


def test_vectors_that_need_gradients_are_compressed_too() -> None:
    x = torch.nn.Parameter(vector(20))
    assert all(compressed(compressor(name), x.detach()).equal(decoded(name, x)) for name in NAMES)


def decoded(name: str, x: torch.Tensor) -> torch.Tensor:
    return compressor(name).decode(compressor(name).encode(x, 3), torch.empty(len(x)), 3)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ("topk", "did you mean 'top_k'"),
        ("top_k:k=3", "unknown option of compressor 'top_k' 'k'"),
        ("sign:fraction=0.1", "compressor 'sign' has no options, got 'fraction'"),
        ("top_k:fraction=0", "above 0 and at most 1"),
        ("top_k:fraction=1.5", "above 0 and at most 1"),
        ("top_k:fraction=true", "above 0 and at most 1"),
        ("random_k:fraction=-1", "above 0 and at most 1"),
        ("random_k:fraction=nan", "got fraction = 'nan': expected a number above 0 and at most 1"),
        ("random_k:unbiased=2", "got unbiased = 2: expected true or false"),
        ("low_rank:rank=0", "an integer of at least 1"),
        ("low_rank:rank=1.5", "an integer of at least 1"),
    ],
)
def test_mistakes_are_told(told: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compressor(told)


def test_mistakes_of_callers_are_told() -> None:
    c = compressor("bf16")
    for wrong in (torch.zeros(2, 2), torch.zeros(4)[::2]):
        with pytest.raises(ValueError, match="expected a contiguous vector in main memory"):
            c.encode(wrong, 0)
    with pytest.raises(ValueError, match=r"got torch.int64: expected one of torch.float16"):
        c.encode(torch.zeros(2, dtype=torch.int64), 0)
    with pytest.raises(ValueError, match=r"got a payload of shape \(3,\), torch.uint8: expected 4 bytes for 2 numbers"):
        c.decode(torch.zeros(3, dtype=torch.uint8), torch.zeros(2), 0)
    with pytest.raises(ValueError, match="got length = -1"):
        c.nbytes(-1, torch.float32)
    with pytest.raises(ValueError, match="got seed = -1"):
        RandomK().encode(torch.zeros(2), -1)
    with pytest.raises(ValueError, match="got dtype = torch.float64"):
        Rounding(torch.float64)
    with pytest.raises(ValueError, match="got fraction = nan"):
        TopK(math.nan)


def test_the_table_names_all() -> None:
    assert {name.partition(":")[0] for name in NAMES} == set(COMPRESSORS)


def test_a_compressor_stands_for_itself() -> None:
    mine = TopK(np.float64(0.5))
    assert compressor(mine) is mine
