"""Decentralized (gossip) data-parallel training of PyTorch models on MPI machines.

Importing this package starts no MPI, no Horovod and no CUDA: `hvd_gossip.torch` is what a training script imports,
`hvd_gossip.graphs` is pure mathematics.
"""

from hvd_gossip.graphs import GRAPHS

__all__ = ["GRAPHS", "__version__"]
__version__ = "0.1.0"
