"""Which samples each replica sees in which order: a function of seed, epoch, rank and size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, Sampler

from hvd_gossip.tasks import Images
from hvd_gossip.train.config import DataConfig


class DirichletSampler(Sampler[int]):
    """Shards skewed by label: of each label, replica i gets a part drawn from a symmetric Dirichlet distribution.

    Every sample belongs to exactly one replica. Shards differ in size and may be empty.

    Args:
        labels: int64 of shape [samples].
        concentration: large for even shards, small for strong skew.
        size, rank: number of replicas, and this one.
        seed: decides the shards and, with the epoch, their order.

    Source: arXiv:1909.06335.
    """

    def __init__(self, labels: Tensor, concentration: float, size: int, rank: int, seed: int) -> None:
        generator = np.random.Generator(np.random.PCG64([seed, 0]))
        shard: list[np.ndarray] = []
        for label in np.unique(labels.numpy()):
            members = generator.permutation(np.flatnonzero(labels.numpy() == label))
            parts = generator.dirichlet(np.full(size, concentration)).cumsum()[:-1]
            shard.append(np.split(members, np.round(parts * len(members)).astype(int))[rank])
        self.indices = np.concatenate(shard)
        self.seed, self.rank, self.epoch = seed, rank, 0

    def set_epoch(self, epoch: int) -> None:
        """Another epoch, another order."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        generator = np.random.Generator(np.random.PCG64([self.seed, 1, self.rank, self.epoch]))
        return iter(generator.permutation(self.indices).tolist())

    def __len__(self) -> int:
        return len(self.indices)


def identity(batch: Any) -> Any:
    """A batch is fetched as a whole: nothing is left to collate."""
    return batch


class Batches:
    """The batches of one replica, epoch by epoch.

    Args:
        images: the training set.
        config: batch size, skew, workers.
        size, rank: number of replicas, and this one.
        seed: decides shards and order.
    """

    def __init__(self, images: Images, config: DataConfig, size: int, rank: int, seed: int) -> None:
        assert config.batch_size is not None
        self.sampler: DirichletSampler | DistributedSampler
        if config.dirichlet is not None:
            self.sampler = DirichletSampler(images.labels, config.dirichlet, size, rank, seed)
        else:
            self.sampler = DistributedSampler(images, num_replicas=size, rank=rank, seed=seed)  # type: ignore[arg-type]
        self.loader: DataLoader[Any] = DataLoader(
            images,  # type: ignore[arg-type]
            batch_sampler=BatchSampler(self.sampler, config.batch_size, drop_last=False),
            num_workers=config.workers,
            collate_fn=identity,
            # A forked worker would inherit MPI's connections.
            multiprocessing_context="forkserver" if config.workers else None,
            generator=torch.Generator().manual_seed(seed),
            persistent_workers=config.workers > 0,
        )

    def __len__(self) -> int:
        return len(self.loader)

    def epoch(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of one epoch."""
        self.sampler.set_epoch(epoch)
        return iter(self.loader)
