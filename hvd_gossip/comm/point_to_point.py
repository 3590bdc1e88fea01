"""A weighted average over edges that belong to one call: a message for each, no graph communicator.

`x_i <- w_i x_i + sum_j r_ij (s_ji x_j)`, r weights of the receiver, s of the sender.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from hvd_gossip.comm import mpi as MPI, watchdog
from hvd_gossip.comm.chunks import CHUNK_BYTES
from hvd_gossip.comm.neighbor import check_buffer, pieces, weighted_sum
from hvd_gossip.comm.raw import raw
from hvd_gossip.comm.staging import Staging
from hvd_gossip.comm.watchdog import NEIGHBOURS, Whom
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
        scales: Mapping[int, float] | None = None,
        whom: Whom = NEIGHBOURS,
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
        if scales is not None:
            row = row._replace(source_weights=row.source_weights * self._scales(row, scales, whom, tag))
        with self._staging(buffer, anyway=True) as values:
            self._average(row, values, whom, tag)

    def _scales(self, row: Row, scales: Mapping[int, float], whom: Whom, tag: int) -> np.ndarray:
        """What the sources want their values multiplied by: done by those who receive them, rounded once."""
        sent = [np.array([scales[to]]) for to in row.destinations.tolist()]
        received = [np.empty(1) for _ in row.sources]
        self._exchange(row, sent, received, whom, tag)
        return np.concatenate([np.empty(0), *received])

    def _average(self, row: Row, values: Tensor, whom: Whom, tag: int) -> None:
        width = torch.view_as_real(values).element_size() if values.is_complex() else values.element_size()
        for chunk in pieces(values, max(1, self._chunk_bytes // width)):
            received = [torch.empty_like(chunk) for _ in row.sources]
            self._exchange(row, [raw(chunk)] * len(row.destinations), [raw(part) for part in received], whom, tag)
            weighted_sum(chunk, chunk, row, received)

    def _exchange(self, row: Row, sent: Sequence[Any], received: Sequence[Any], whom: Whom, tag: int) -> None:
        """One message for each edge."""
        pairs = zip(received, row.sources.tolist(), strict=True)
        requests = [self._comm.Irecv([space, MPI.BYTE], of, tag) for space, of in pairs]
        pairs = zip(sent, row.destinations.tolist(), strict=True)
        requests += [self._comm.Isend([values, MPI.BYTE], to, tag) for values, to in pairs]
        watchdog.wait(lambda: MPI.Request.Testall(requests), whom)
