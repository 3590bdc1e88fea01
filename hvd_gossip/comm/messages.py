"""The chunks of a vector on their way to the neighbours of a graph communicator, by neighborhood collectives."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hvd_gossip.comm import mpi as MPI, watchdog
from hvd_gossip.comm.raw import raw
from hvd_gossip.comm.staging import wait_for_values
from hvd_gossip.comm.watchdog import Whom
from hvd_gossip.mixing import rounded

if TYPE_CHECKING:
    from mpi4py.MPI import Distgraphcomm, Request


IN_FLIGHT_BYTES = 2 << 20
"""So much is on its way to one neighbour at a time."""


class Messages:
    """Sends a rank's chunks to its out-neighbours and receives those of its in-neighbours, several at a time.

    Memory: 2 MiB, or two chunks, for each neighbour that is heard, reused from call to call.

    Attributes:
        waited: seconds spent waiting for others so far.
    """

    def __init__(self) -> None:
        self.waited = 0.0
        self._received: dict[tuple[int, torch.device], Tensor] = {}

    def __call__(
        self, graph: Distgraphcomm, degree: int, chunks: Sequence[Tensor], wire: torch.dtype, whom: Whom
    ) -> Iterator[Tensor]:
        """What the in-neighbours hold, chunk by chunk, as [degree, length]; own chunks up to there may be overwritten.

        Args:
            graph: the communicator.
            degree: how many are heard.
            chunks: what this rank sends; contiguous vectors of any dtype.
            wire: the dtype in which values travel.
            whom: says for whom a message waits.
        """
        pending: deque[tuple[Request, Tensor, Tensor]] = deque()
        window = max(2, IN_FLIGHT_BYTES // max(1, len(chunks[0]) * wire.itemsize)) if chunks else 2
        for index, chunk in enumerate(chunks):
            sent, received = rounded(chunk, wire), self._space(index % window, degree, chunk, wire)
            wait_for_values(sent)
            size = sent.nbytes
            request = graph.Ineighbor_allgather([raw(sent), size, MPI.BYTE], [raw(received), size, MPI.BYTE])
            pending.append((request, sent, received))
            if len(pending) == window:
                yield self._arrived(*pending.popleft(), whom)
        for exchange in pending:
            yield self._arrived(*exchange, whom)

    def _arrived(self, request: Request, sent: Tensor, received: Tensor, whom: Whom) -> Tensor:
        """What has been received, once it is there and `sent` is on its way."""
        self.waited += watchdog.wait(request.Test, whom)
        return received

    def _space(self, place: int, degree: int, chunk: Tensor, dtype: torch.dtype) -> Tensor:
        needed, key = degree * len(chunk) * dtype.itemsize, (place, chunk.device)
        if key not in self._received or self._received[key].numel() < needed:
            self._received[key] = torch.empty(needed, dtype=torch.uint8, device=chunk.device)
        return self._received[key][:needed].view(dtype).view(degree, len(chunk))
