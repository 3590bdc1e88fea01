"""The exact mean: by MPI in chunks, and by Horovod."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from mpi4py import MPI

from hvd_gossip.comm import allreduce
from hvd_gossip.comm.allreduce_mixer import AllreduceMixer
from hvd_gossip.comm.broadcast import broadcast_
from hvd_gossip.comm.fusion import FlatParameters
from hvd_gossip.comm.horovod_allreduce import HorovodMean
from hvd_gossip.comm.neighbor_mixer import NeighborMixer
from hvd_gossip.graphs import schedule

needs_horovod = pytest.mark.skipif(importlib.util.find_spec("horovod") is None, reason="Horovod is not installed")
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
BACKENDS = ["mpi", pytest.param("horovod", marks=needs_horovod)]


def values(n: int, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """What all ranks hold, [n, *shape], the same on every rank; multiples of 1/8 that any dtype holds."""
    return torch.randint(-64, 64, (n, *shape), generator=torch.Generator().manual_seed(3)).to(dtype) / 8


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_mean_is_summed_in_float32_or_better_and_rounded_once(here, backend, dtype):
    everything = values(here.size, dtype, 1001)
    buffer = everything[here.rank].clone()
    mixer = AllreduceMixer(here, backend)
    mixer.begin(0, 0)
    mixer.mix([buffer])
    # Sums of these numbers are exact in float32, so that their order does not matter.
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert torch.equal(buffer, (everything.to(wide).sum(0) / here.size).to(dtype))


@pytest.mark.parametrize("backend", BACKENDS)
def test_complex_and_empty_buffers(here, backend):
    everything = torch.complex(values(here.size, torch.float32, 9), values(here.size, torch.float32, 9) + 1)
    buffer, nothing = everything[here.rank].clone(), torch.zeros(0)
    mixer = AllreduceMixer(here, backend)
    mixer.mix([buffer, nothing])
    torch.testing.assert_close(buffer, everything.mean(0))


@needs_horovod
def test_half_precision_on_the_wire_is_near(here):
    everything = torch.randn(here.size, 500, generator=torch.Generator().manual_seed(1))
    buffer = everything[here.rank].clone()
    HorovodMean(here, torch.float16)(buffer, 0)
    assert buffer.dtype == torch.float32
    torch.testing.assert_close(buffer, everything.mean(0), atol=4e-3, rtol=0)


@pytest.mark.parametrize("chunk", [8, 24, 1 << 20])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (4, 7)])
def test_sum_of_integers_is_exact_at_any_chunk(here, shape, chunk):
    tensor = torch.full(shape, 2**40 + here.rank, dtype=torch.int64)
    allreduce.sum_(here.comm, tensor, chunk)
    assert torch.equal(tensor, torch.full(shape, here.size * 2**40 + here.size * (here.size - 1) // 2))


def test_strided_tensors_keep_their_strides(here):
    tensor = torch.arange(12.0).view(3, 4).t().contiguous().t() + here.rank
    strides = tensor.stride()
    allreduce.mean_(here.comm, tensor)
    assert tensor.stride() == strides
    torch.testing.assert_close(tensor, torch.arange(12.0).view(3, 4) + (here.size - 1) / 2)


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.bool], ids=str)
def test_broadcast_is_bit_for_bit_from_any_root(here, dtype, chunk):
    for root in range(here.size):
        tensor = (values(here.size, torch.float32, 3, 5)[here.rank] + here.rank).to(dtype).t()
        expected = (values(here.size, torch.float32, 3, 5)[root] + root).to(dtype).t()
        assert torch.equal(broadcast_(here.comm, tensor, root, chunk), expected)


def test_an_unknown_backend_and_an_impossible_wire_are_refused(here):
    with pytest.raises(ValueError, match="did you mean 'horovod'"):
        AllreduceMixer(here, "horovd")
    with pytest.raises(ValueError, match="only Horovod sums 16-bit floats"):
        AllreduceMixer(here, "mpi", torch.float16)


@needs_horovod
@pytest.mark.parametrize("shared_memory", [True, False])
def test_gossip_and_horovod_interleave(here, shared_memory):
    """A thousand steps in which gossip goes on in the background while Horovod averages, on a new graph in each."""
    gossip = NeighborMixer(here, schedule("random_ring", here.size), shared_memory=shared_memory)
    flat, mean = FlatParameters([torch.nn.Parameter(torch.full((100,), float(here.rank)))]), AllreduceMixer(here)
    gossip.settle(flat, overlap=True)
    for step in range(1000):
        gossip.begin(step, 0)
        gossip.start(flat.buffers)
        buffer = torch.full((50,), float(here.rank + step))
        mean.mix([buffer])
        assert buffer.sub((here.size - 1) / 2 + step).abs().max() < 1e-3
        gossip.mix(flat.buffers)
    assert flat.parameters[0].detach().sub((here.size - 1) / 2).abs().max() < 1e-5
    gossip.free()


@needs_horovod
def test_a_lower_thread_level_is_refused(here, monkeypatch):
    monkeypatch.setattr(MPI, "Query_thread", lambda: MPI.THREAD_SERIALIZED)
    with pytest.raises(RuntimeError, match="expected MPI_THREAD_MULTIPLE"):
        AllreduceMixer(here)


def test_without_horovod_the_baseline_says_what_to_do(here, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="choose allreduce='mpi'"):
        AllreduceMixer(here)
