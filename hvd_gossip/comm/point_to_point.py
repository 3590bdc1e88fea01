"""A weighted average over edges that belong to one call: a message for each, no graph communicator.

`x_i <- w_i x_i + sum_j r_ij (s_ji x_j)`, r weights of the receiver, s of the sender.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hvd_gossip.comm import mpi as MPI, watchdog
from hvd_gossip.comm.chunks import CHUNK_BYTES
from hvd_gossip.comm.neighbor import check_buffer, pieces, weighted_sum
from hvd_gossip.comm.raw import raw
from hvd_gossip.comm.staging import Staging
from hvd_gossip.graphs import Row

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

TAGS = 1 << 15
"""Tags that every MPI has."""


class PointToPoint:
    """Averages vectors over edges that are given anew each time.

    Args:
        comm: the ranks; a duplicate of its own, for its tags are all taken.
        chunk_bytes: at most so many bytes go to one rank in one message.
    """

    def __init__(self, comm: Intracomm, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._comm, self._chunk_bytes, self._calls = comm, chunk_bytes, 0
        self._staging = Staging()

    def __call__(
        self,
        row: Row,
        buffer: Tensor,
        scales: Mapping[int, float],
        whom: Callable[[], str] = lambda: "its neighbours",
        tag: int | None = None,
    ) -> None:
        """Average in place.

        Args:
            row: whom this rank hears with which weights, and whom it sends to.
            buffer: one-dimensional, contiguous, any floating or complex dtype.
            scales: by what the values are multiplied that a destination gets (default: 1).
            whom: says for whom a message waits.
            tag: tells this call from others between the same ranks (default: calls are counted, by every rank alike).
        """
        check_buffer(buffer)
        self._calls += 1
        tag = self._calls % TAGS if tag is None else tag
        with self._staging(buffer, anyway=True) as values:
            self._average(row, values, scales, whom, tag)

    def _average(
        self, row: Row, values: Tensor, scales: Mapping[int, float], whom: Callable[[], str], tag: int
    ) -> None:
        width = torch.view_as_real(values).element_size() if values.is_complex() else values.element_size()
        sources, destinations = row.sources.tolist(), row.destinations.tolist()
        for chunk in pieces(values, max(1, self._chunk_bytes // width)):
            received = [torch.empty_like(chunk) for _ in sources]
            sent = [chunk if scales.get(to, 1.0) == 1.0 else chunk * scales[to] for to in destinations]
            requests = [self._comm.Irecv([raw(r), MPI.BYTE], of, tag) for r, of in zip(received, sources, strict=True)]
            requests += [
                self._comm.Isend([raw(s), MPI.BYTE], to, tag) for s, to in zip(sent, destinations, strict=True)
            ]
            watchdog.wait(lambda pending=requests: MPI.Request.Testall(pending), whom)  # type: ignore[misc]
            weighted_sum(chunk, chunk, row, received)
