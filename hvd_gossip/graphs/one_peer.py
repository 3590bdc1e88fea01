"""The one-peer exponential graph: one neighbour in each round, at distances 1, 2, 4, …"""

from __future__ import annotations

from hvd_gossip.graphs.cayley import Circulant
from hvd_gossip.graphs.registry import graph
from hvd_gossip.graphs.schedules import Varying
from hvd_gossip.graphs.topology import replicas


@graph
def one_peer_exponential(n: int) -> Varying:
    r"""In round t replica i hears i - 2^(t mod ceil(log2 n)) alone: directed, one peer.

    `W(t)[i, i] = W(t)[i, i - 2^s mod n] = 1/2`, `s = t mod ceil(log2 n)`. The rounds of a period average exactly if and
    only if n is a power of two.

    Args:
        n: number of replicas, at least 1.

    Raises:
        ValueError: n is not an integer of at least 1.

    Example:
        >>> [one_peer_exponential(8)(round).row(0).sources.tolist() for round in range(4)]
        [[7], [6], [4], [7]]

    Source: arXiv:2110.13363.
    """
    n = replicas("one_peer_exponential", n)
    period = max(1, (n - 1).bit_length())
    return Varying(
        "one_peer_exponential",
        n,
        lambda round, epoch: Circulant(f"one_peer_exponential round {round}", n, [-(1 << round)]),
        period=period,
        degree=min(1, n - 1),
    )
