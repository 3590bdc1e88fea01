"""What a training script imports where it imported `horovod.torch`.

>>> import hvd_gossip.torch as hvd

Names and arguments are Horovod's; `DistributedOptimizer` takes `graph`, `algorithm` and `allreduce` besides. Nothing
starts before `init()`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hvd_gossip.comm import horovod_allreduce, world
from hvd_gossip.torch.averaging import averaged, consensus_distance
from hvd_gossip.torch.collectives import (
    Adasum,
    Average,
    Compression,
    ReduceOp,
    Sum,
    allreduce,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from hvd_gossip.torch.neighbor_allgather import neighbor_allgather, neighbor_allgather_nonblocking
from hvd_gossip.torch.neighbor_allreduce import (
    neighbor_allreduce,
    neighbor_allreduce_,
    neighbor_allreduce_nonblocking,
    neighbor_allreduce_nonblocking_,
)
from hvd_gossip.torch.operations import (
    in_neighbor_ranks,
    load_topology,
    out_neighbor_ranks,
    poll,
    set_topology,
    synchronize,
)
from hvd_gossip.torch.optimizer import DistributedOptimizer
from hvd_gossip.torch.pair_gossip import pair_gossip, pair_gossip_, pair_gossip_nonblocking

if TYPE_CHECKING:
    from hvd_gossip.comm.mpi import Intracomm

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "ReduceOp",
    "Sum",
    "allreduce",
    "averaged",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "consensus_distance",
    "horovod_built",
    "in_neighbor_ranks",
    "init",
    "is_initialized",
    "load_topology",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "nccl_built",
    "neighbor_allgather",
    "neighbor_allgather_nonblocking",
    "neighbor_allreduce",
    "neighbor_allreduce_",
    "neighbor_allreduce_nonblocking",
    "neighbor_allreduce_nonblocking_",
    "out_neighbor_ranks",
    "pair_gossip",
    "pair_gossip_",
    "pair_gossip_nonblocking",
    "poll",
    "rank",
    "set_topology",
    "shutdown",
    "size",
    "synchronize",
]


def init(comm: Intracomm | None = None) -> None:
    """Start on all ranks of a communicator; from now on an uncaught error on one rank ends the whole job.

    Args:
        comm: an mpi4py communicator; all processes of the job when left out. It is duplicated.

    Raises:
        RuntimeError: the launcher started several processes, but MPI sees one.
        ValueError: something else than a communicator of which this process is a part.
    """
    world.start(comm)


def shutdown() -> None:
    """Free what `init` made; MPI stays up until the process ends."""
    world.stop()


def is_initialized() -> bool:
    """Whether `init` has been called, and `shutdown` not since."""
    return world.started()


def rank() -> int:
    """The number of this process among all, 0 to size() - 1."""
    return world.current().rank


def size() -> int:
    """The number of processes, one for each replica."""
    return world.current().size


def local_rank() -> int:
    """This process's number among those that share its memory, 0 to local_size() - 1: by it one chooses a device."""
    return world.current().local_rank


def local_size() -> int:
    """The number of processes that share this one's memory."""
    return world.current().local_size


def mpi_built() -> bool:
    """True: everything here runs on MPI."""
    return True


def mpi_enabled() -> bool:
    """True: everything here runs on MPI."""
    return True


def nccl_built() -> bool:
    """False: nothing here runs on NCCL."""
    return False


def horovod_built() -> bool:
    """Whether Horovod is installed, so that `algorithm="allreduce"` can run on it."""
    return horovod_allreduce.installed()
