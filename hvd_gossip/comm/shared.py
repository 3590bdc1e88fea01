"""Vectors in memory that the ranks of a node share: neighbours read them where they are, nothing is copied or sent.

Each vector has two places. In a round a rank reads its own and its neighbours' vectors in one place and writes the
average to the other, which is the current one from then on. A rank announces each round (`published`) once its vector
may be read, and again (`finished`) once it has read its neighbours'; before it writes to a place again it waits for
those who read there. There is no barrier, and a new graph in every round costs nothing.

The memory is a file in /dev/shm that has no name any more once all have mapped it: its pages are reserved at the
start, so that a small /dev/shm is noticed there, and it lasts as long as a tensor refers to it, MPI or not.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hvd_gossip.comm import watchdog
from hvd_gossip.comm.watchdog import Whom
from hvd_gossip.comm.world import World

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

FOLDER = "/dev/shm"
PAGE = 4096
PUBLISHED, FINISHED, FINGERPRINT = range(3)


class Segment:
    """The memory of one rank: three numbers, and two places for each vector.

    Args:
        memory: mapped.
        kinds: dtype and length of each vector.
    """

    def __init__(self, memory: mmap.mmap, kinds: Sequence[tuple[torch.dtype, int]]) -> None:
        self.flags = memoryview(memory)[:PAGE].cast("q")
        self.places: list[tuple[Tensor, Tensor]] = []
        begin = PAGE
        for dtype, length in kinds:
            step = places_bytes(dtype, length)
            one, other = (view(memory, dtype, length, begin + half * step) for half in (0, 1))
            self.places.append((one, other))
            begin += 2 * step


def view(memory: mmap.mmap, dtype: torch.dtype, length: int, begin: int) -> Tensor:
    """A vector in mapped memory."""
    return torch.frombuffer(memory, dtype=dtype, count=length, offset=begin) if length else torch.empty(0, dtype=dtype)


def places_bytes(dtype: torch.dtype, length: int) -> int:
    """Bytes of one place: whole pages."""
    return -(-length * dtype.itemsize // PAGE) * PAGE


class SharedVectors:
    """This rank's vectors, and sight of those of the other ranks of its node.

    Every rank of the node makes them together.

    Args:
        world: the ranks.
        node: those that share this rank's memory.
        kinds: dtype and length of each vector, the same on every rank.

    Attributes:
        segments: by rank of the world, of the ranks that share this rank's memory, itself included.
        nbytes: of all vectors of one rank.
        side: which of the two places holds the current values, the same on all of them.
        waited: seconds spent waiting for others so far.

    Raises:
        OSError: on every rank of the node, where /dev/shm is missing or too small.
    """

    def __init__(self, world: World, node: Intracomm, kinds: Sequence[tuple[torch.dtype, int]]) -> None:
        size = PAGE + sum(2 * places_bytes(dtype, length) for dtype, length in kinds)
        ranks: list[int] = node.allgather(world.rank)
        memories = map_together(node, size)
        self.segments = {rank: Segment(memory, kinds) for rank, memory in zip(ranks, memories, strict=True)}
        self.own = self.segments[world.rank]
        self.nbytes = sum(length * dtype.itemsize for dtype, length in kinds)
        self.rounds = self.side = 0
        self.waited = 0.0
        self._hearers: list[int] = []
        self._lock = threading.Lock()

    def near(self, ranks: Sequence[int]) -> list[int]:
        """Those of some ranks whose memory this rank sees."""
        return [rank for rank in ranks if rank in self.segments]

    def current(self, rank: int, index: int) -> Tensor:
        """What a rank of this node holds in the vector of this index."""
        return self.segments[rank].places[index][self.side]

    def other(self, rank: int, index: int) -> Tensor:
        """The other place of that vector."""
        return self.segments[rank].places[index][1 - self.side]

    def open(self, sources: list[int], hearers: list[int], fingerprint: int, whom: Whom) -> None:
        """Let others read, and wait until near sources may be read and the other place written.

        Args:
            sources: near ranks that this rank hears in this round.
            hearers: near ranks that hear it.
            fingerprint: a number that tells this round's graph from others.
            whom: says for which rank is waited.

        Raises:
            ValueError: a source has another graph in this round.
        """
        number = self.rounds + 1
        self.quiesce(whom)
        self.own.flags[FINGERPRINT] = fingerprint
        self._fence()
        self.own.flags[PUBLISHED] = number
        self._wait(sources, PUBLISHED, number, whom)
        self._hearers = hearers
        for source in sources:
            if self.segments[source].flags[FINGERPRINT] != fingerprint:
                raise ValueError(
                    f"rank {source} has another graph in this round, or the same edges with other weights, than "
                    f"{whom.text(source)}: every rank must be given the same graph"
                )

    def quiesce(self, whom: Whom) -> None:
        """Wait until those who hear this rank have read it."""
        self._wait(self._hearers, FINISHED, self.rounds, whom)

    def close(self) -> None:
        """Tell that the near sources have been read."""
        self._fence()
        self.rounds += 1
        self.own.flags[FINISHED] = self.rounds

    def _wait(self, ranks: Sequence[int], flag: int, number: int, whom: Whom) -> None:
        for rank in ranks:
            flags = self.segments[rank].flags
            if flags[flag] < number:
                self.waited += watchdog.wait(lambda flags=flags: flags[flag] >= number, whom.rank(rank))  # type: ignore[misc]
        self._fence()

    def _fence(self) -> None:
        """No load or store moves over this line: between two locks nothing can, on processors of any kind."""
        for _ in range(2):
            with self._lock:
                pass


def map_together(node: Intracomm, size: int) -> list[mmap.mmap]:
    """The memory of every rank of the node, in the order of the node, each of `size` bytes.

    Raises:
        OSError: on every rank of the node, when one of them cannot have it.
    """
    told: list[tuple[str, str]] = node.allgather(reserve(size))
    memories, error = [], next((error for _, error in told if error), "")
    if not error:
        try:
            memories = [map_file(path, size) for path, _ in told]
        except OSError as failure:
            error = str(failure)
    failures = [failure for failure in node.allgather(error) if failure]
    if own := told[node.Get_rank()][0]:
        Path(own).unlink(missing_ok=True)
    if failures:
        raise OSError(failures[0])
    return memories


def reserve(size: int) -> tuple[str, str]:
    """A new file whose pages are reserved, and what kept it from being made."""
    path = ""
    try:
        file, path = tempfile.mkstemp(prefix=f"hvd_gossip-{os.getpid()}-", dir=FOLDER)
        try:
            os.posix_fallocate(file, 0, size)
        finally:
            os.close(file)
    except OSError as error:
        return path, f"{FOLDER} has no {size:,} bytes for each rank: {error}"
    return path, ""


def map_file(path: str, size: int) -> mmap.mmap:
    """Another rank's file, or this rank's own, as memory."""
    file = os.open(path, os.O_RDWR)
    try:
        return mmap.mmap(file, size)
    finally:
        os.close(file)
