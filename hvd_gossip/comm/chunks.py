"""How large the pieces are in which vectors travel, by what lies between the ranks.

On a node, and where a network moves data by itself (InfiniBand and the like), 1 MiB: received rows are still in cache
when they are added. Over TCP no more than Open MPI sends eagerly: of longer messages each fragment is asked for by its
receiver, the request waits behind the data that the receiver sends on the same connection, and the two directions of
a link take turns instead of going on at once.
"""

from __future__ import annotations

import os
from pathlib import Path

from hvd_gossip.comm import mpi as MPI
from hvd_gossip.comm.world import World

CHUNK_BYTES = 1 << 20
EAGER_BYTES = 60_000
"""Open MPI sends up to 64 KiB eagerly over TCP, its own header included."""
LEAST_BYTES = 16
"""One complex number."""
FABRICS = ("/sys/class/infiniband", "/sys/class/cxi")
"""Where Linux lists network devices that move data by themselves."""


def chunk_bytes(world: World) -> int:
    """Bytes that go to one neighbour in one call, the same on every rank.

    The environment variable HVD_GOSSIP_CHUNK_BYTES overrides it.

    Raises:
        ValueError: on every rank, when it is no number of bytes, or differs between ranks.
    """
    told = world.together(lambda: told_bytes(os.environ.get("HVD_GOSSIP_CHUNK_BYTES")))
    world.agree("HVD_GOSSIP_CHUNK_BYTES", told)
    if told is not None:
        return told
    one_node = world.node.Get_size() == world.size
    return int(world.comm.allreduce(CHUNK_BYTES if one_node or has_fabric() else EAGER_BYTES, MPI.MIN))


def told_bytes(text: str | None) -> int | None:
    """The number of bytes that the environment asks for."""
    if text is None or not text.strip():
        return None
    if not text.strip().isdigit() or int(text) < LEAST_BYTES:
        raise ValueError(f"got HVD_GOSSIP_CHUNK_BYTES = {text!r}: expected a number of bytes, at least {LEAST_BYTES}")
    return int(text)


def has_fabric() -> bool:
    """Whether this host has a network device that moves data by itself."""
    return any(Path(folder).is_dir() and any(Path(folder).iterdir()) for folder in FABRICS)
