"""Ranks, agreement on errors, and giving communicators back."""

from __future__ import annotations

import pytest
from mpi4py import MPI

from hvd_gossip import torch as hvd
from hvd_gossip.comm import world
from hvd_gossip.comm.world import World


def test_ranks_are_those_of_the_communicator(here):
    assert (here.rank, here.size) == (MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size())
    assert MPI.Comm.Compare(here.comm, MPI.COMM_WORLD) == MPI.CONGRUENT


def test_local_ranks_number_the_ranks_of_a_node(here):
    nodes = here.comm.allgather((MPI.Get_processor_name(), here.local_rank, here.local_size))
    mine = sorted(local for name, local, _ in nodes if name == MPI.Get_processor_name())
    assert mine == list(range(here.local_size))


@pytest.mark.parametrize("split", [False, True])
def test_a_part_of_the_ranks_is_a_world_of_its_own(split):
    comm = MPI.COMM_WORLD.Split(MPI.COMM_WORLD.Get_rank() % 2) if split else MPI.COMM_SELF
    with World(comm) as part:
        assert (part.rank, part.size) == (comm.Get_rank(), comm.Get_size())
        assert part.comm.allreduce(1) == comm.Get_size()
    if split:
        comm.Free()


def test_an_error_on_the_last_rank_is_raised_on_every_rank(here):
    last = here.size - 1
    with pytest.raises(ValueError, match="bad value") as caught:
        here.raise_together("bad value" if here.rank == last else None)
    assert caught.value.agreed
    assert (f"on rank {last}" in str(caught.value)) == (here.size > 1)


def test_together_returns_the_value_or_raises_everywhere(here):
    assert here.together(lambda: here.rank) == here.rank

    def only_rank_0_fails():
        if here.rank == 0:
            raise KeyError("lost")

    with pytest.raises(ValueError, match="lost"):
        here.together(only_rank_0_fails)


def test_values_that_differ_are_named(here):
    here.agree("the seed", 5)
    if here.size == 1:
        here.agree("the seed", here.rank)
        return
    with pytest.raises(ValueError, match="the seed differs between ranks: rank 0 has 0, rank 1 has 1"):
        here.agree("the seed", here.rank)


def test_worlds_can_be_made_and_freed_many_times():
    for _ in range(3000):
        World(MPI.COMM_SELF).free()


def test_init_and_shutdown():
    assert not hvd.is_initialized()
    with pytest.raises(ValueError, match=r"call hvd_gossip\.torch\.init\(\) first"):
        hvd.rank()
    hvd.init()
    hvd.init()
    assert hvd.is_initialized()
    assert (hvd.rank(), hvd.size()) == (MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size())
    assert 0 <= hvd.local_rank() < hvd.local_size() <= hvd.size()
    hvd.shutdown()
    hvd.shutdown()
    assert not hvd.is_initialized()
    assert not MPI.Is_finalized()


def test_init_takes_a_communicator_and_nothing_else():
    with pytest.raises(ValueError, match="expected an mpi4py communicator"):
        hvd.init([0, 1])
    hvd.init(MPI.COMM_SELF)
    assert hvd.size() == 1
    hvd.shutdown()


def test_free_twice_does_nothing(here):
    other = World(here.comm)
    other.free()
    other.free()
    assert world.current() is here
