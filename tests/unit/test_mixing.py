"""MatrixMixer against a dense product: exactness by dtype, conservation, contraction, and the round's graph."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from forms import FORMS, cases, fitting
from hypothesis import given, settings, strategies as st

from hvd_gossip.graphs import MatrixTopology, Schedule, Topology, complete, ring, schedule
from hvd_gossip.matrix_mixer import MatrixMixer, torch_matrix
from hvd_gossip.mixing import accumulation_dtype

SEEDS = st.integers(0, 10**6)
# Weights 1/4, 1/8, 1/2, 1/8 are exact in every dtype, and each replica hears three others.
DYADIC = np.array([[2, 1, 4, 1], [1, 2, 1, 4], [4, 1, 2, 1], [1, 4, 1, 2]]) / 8


def mixed(graph: str | Topology | Schedule, x: torch.Tensor) -> torch.Tensor:
    """W x for the graph of round 0."""
    mixer, y = MatrixMixer(schedule(graph, len(x))), x.clone()
    mixer.begin(0, 0)
    mixer.mix([y])
    return y


def gaussian(n: int, seed: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(n, 5, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-14), (torch.float32, 2e-6), (torch.complex64, 2e-6), (torch.complex128, 1e-14)],
)
@settings(deadline=None, max_examples=40)
@given(case=cases(FORMS), seed=SEEDS)
def test_mixing_is_the_dense_product(dtype: torch.dtype, tolerance: float, case: tuple[str, int], seed: int) -> None:
    form, n = case
    x = gaussian(n, seed, dtype)
    y = mixed(form, x)
    assert y.dtype == dtype
    np.testing.assert_allclose(y.numpy(), schedule(form, n)(0).matrix().toarray() @ x.numpy(), atol=tolerance, rtol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@settings(deadline=None)
@given(rows=st.lists(st.lists(st.integers(-(2**11), 2**11), min_size=3, max_size=3), min_size=4, max_size=4))
def test_half_precision_is_summed_in_float32_and_rounded_once(dtype: torch.dtype, rows: list[list[int]]) -> None:
    """Sums of these values are exact in float32, so one rounding of the exact sum is the only right answer."""
    x = torch.tensor(rows, dtype=dtype)
    exact = torch.from_numpy(DYADIC @ x.to(torch.float64).numpy())
    assert torch.equal(mixed(MatrixTopology("own", DYADIC), x), exact.to(dtype))


def test_half_precision_needs_the_wide_sum() -> None:
    """Sums rounded on the way give other values in bfloat16, and overflow beyond 65504 in float16."""
    topology = MatrixTopology("own", DYADIC)
    small = torch.tensor([[256.0], [3], [257], [5]], dtype=torch.bfloat16)
    expected = torch.from_numpy(DYADIC @ small.double().numpy()).to(torch.bfloat16)
    assert torch.equal(mixed(topology, small), expected)
    step_by_step = torch.zeros(4, 1, dtype=torch.bfloat16)
    for j in range(4):
        step_by_step += torch.tensor(DYADIC[:, j : j + 1], dtype=torch.bfloat16) * small[j]
    assert not torch.equal(step_by_step, expected)
    large = torch.full((4, 2), 60000.0, dtype=torch.float16)
    assert torch.equal(mixed(complete(4), large), large)


@settings(deadline=None)
@given(cases(FORMS), SEEDS, st.integers(1, 5))
def test_the_mean_is_conserved(case: tuple[str, int], seed: int, rounds: int) -> None:
    form, n = case
    x = gaussian(n, seed)
    y = x.clone()
    mixer = MatrixMixer(schedule(form, n))
    for number in range(rounds):
        mixer.begin(number, 0)
        mixer.mix([y])
    torch.testing.assert_close(y.mean(dim=0), x.mean(dim=0), atol=1e-13, rtol=0)


@settings(deadline=None)
@given(st.integers(3, 40), SEEDS)
def test_the_ring_contracts_by_its_gap_in_every_round(n: int, seed: int) -> None:
    factor = 1 - 2 / 3 * (1 - math.cos(2 * math.pi / n))
    x = gaussian(n, seed)
    for _ in range(4):
        y = mixed("ring", x)
        assert (y - y.mean(dim=0)).norm() <= (factor + 1e-12) * (x - x.mean(dim=0)).norm() + 1e-13
        x = y


@pytest.mark.parametrize("n", [3, 8, 12])
def test_the_slowest_wave_on_the_ring_contracts_by_exactly_its_gap(n: int) -> None:
    x = torch.cos(2 * math.pi * torch.arange(n, dtype=torch.float64) / n)[:, None]
    torch.testing.assert_close(mixed("ring", x), (1 - 2 / 3 * (1 - math.cos(2 * math.pi / n))) * x, atol=1e-14, rtol=0)


@settings(deadline=None)
@given(st.integers(1, 40), SEEDS)
def test_complete_averages_in_one_round(n: int, seed: int) -> None:
    x = gaussian(n, seed)
    torch.testing.assert_close(mixed("complete", x), x.mean(dim=0).expand(n, -1), atol=1e-14, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64])
def test_one_replica_stays_bit_for_bit(dtype: torch.dtype) -> None:
    x = gaussian(1, 0).to(dtype)
    assert all(torch.equal(mixed(name, x), x) for name in fitting(1))


def test_buffers_of_several_dtypes_are_mixed_together() -> None:
    buffers = [gaussian(4, 0), gaussian(4, 1, torch.float32), gaussian(4, 2).to(torch.bfloat16)]
    expected = [mixed("ring", buffer) for buffer in buffers]
    addresses = [buffer.data_ptr() for buffer in buffers]
    mixer = MatrixMixer(schedule("ring", 4))
    mixer.begin(0, 0)
    mixer.mix(buffers)
    assert all(torch.equal(one, other) for one, other in zip(buffers, expected, strict=True))
    assert [buffer.data_ptr() for buffer in buffers] == addresses


class Changing:
    """The ring in even rounds of epoch 0, else the complete graph."""

    name: str = "changing"
    n: int = 5
    period: int | None = None

    def __call__(self, round: int, epoch: int = 0) -> Topology:
        return complete(self.n) if round % 2 or epoch else ring(self.n)


@pytest.mark.parametrize(
    ("round", "epoch", "name"), [(0, 0, "ring"), (1, 0, "complete"), (2, 0, "ring"), (2, 1, "complete")]
)
def test_begin_makes_the_graph_of_the_round_the_mixing_matrix(round: int, epoch: int, name: str) -> None:
    mixer, x = MatrixMixer(Changing()), gaussian(5, 3)
    assert mixer.size == 5
    for earlier in range(3):
        mixer.begin(earlier, 0)
    mixer.begin(round, epoch)
    y = x.clone()
    mixer.mix([y])
    assert torch.equal(y, mixed(name, x))


@pytest.mark.parametrize("form", fitting(6))
def test_torch_matrix_is_the_matrix(form: str) -> None:
    topology = schedule(form, 6)(1)
    W = torch_matrix(topology)
    assert W.dtype == torch.float64
    np.testing.assert_array_equal(W.to_dense().numpy(), topology.matrix().toarray())


def test_sums_are_in_float32_or_better() -> None:
    wide = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128):
        assert accumulation_dtype(dtype) == wide.get(dtype, dtype)
