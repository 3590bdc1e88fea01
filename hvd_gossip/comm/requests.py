"""What ranks ask for in an operation, compared before anything of it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hvd_gossip.comm import mpi as MPI, watchdog
from hvd_gossip.comm.agreement import Agreement, agreed, digest, raise_together
from hvd_gossip.comm.dist_graph import edge_balance, raise_edge
from hvd_gossip.comm.watchdog import Whom
from hvd_gossip.graphs import Row

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

HEADER_TAG, TEXT_TAG = 2, 3
"""Of the messages between the two ranks of a pair."""


class Asked(NamedTuple):
    """What one rank asks for.

    Attributes:
        text: in words, which are the same on all ranks.
        seal: what the words do not tell, the same on all ranks too.
        row: edges that belong to this call alone.
    """

    text: str
    seal: bytes = b""
    row: Row | None = None


def compare(agreement: Agreement, asked: Asked | None, error: str | None) -> None:
    """Refuse an operation on every rank alike, when a rank has an error or they do not ask for the same.

    Raises:
        ValueError: says which ranks ask for what.
    """
    number = digest((asked.text, asked.seal)) if asked else 0
    balance = edge_balance(asked.row, agreement.rank) if asked and asked.row else 0
    errors, edges, total = agreement.total([error is not None, balance, number], "begin the same operation")
    if not errors and not edges and total == number * agreement.size % 2**64:
        return
    raise_together(agreement.comm, error)
    assert asked is not None
    texts = agreement.comm.allgather(asked.text)
    if odd := [rank for rank, text in enumerate(texts) if text != texts[0]]:
        raise agreed(f"ranks ask for different operations: rank 0 for {texts[0]}, rank {odd[0]} for {texts[odd[0]]}")
    if asked.row:
        raise_edge(agreement.comm, asked.row, "of this call", None)
    raise agreed(f"{asked.text}: edges or weights of the graph differ between ranks; give every rank the same graph")


def compare_pair(comm: Intracomm, other: int, text: str, error: str | None, whom: Whom) -> None:
    """Refuse an operation of two ranks on both alike, when one has an error or they do not ask for the same.

    Raises:
        ValueError: says what the two ask for.
    """
    own, theirs = np.array([error is not None, digest(text)], np.uint64), np.empty(2, np.uint64)
    requests = [comm.Irecv(theirs, other, HEADER_TAG), comm.Isend(own, other, HEADER_TAG)]
    watchdog.wait(lambda: MPI.Request.Testall(requests), whom)
    if not own[0] and np.array_equal(own, theirs):
        return
    their_error, their_text = comm.sendrecv((error, text), other, TEXT_TAG, source=other, recvtag=TEXT_TAG)
    if error is not None:
        raise agreed(error)
    if their_error is not None:
        raise agreed(f"{their_error} (on rank {other})")
    raise agreed(f"two ranks ask for different operations: this one for {text}, rank {other} for {their_text}")
