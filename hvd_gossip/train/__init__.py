"""The driver: configuration, one visible loop, checkpoints, log."""

from hvd_gossip.train.config import TrainConfig

__all__ = ["TrainConfig"]
