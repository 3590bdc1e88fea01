"""Loss and accuracy of every replica and of their mean on the test set."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from hvd_gossip import torch as hvd
from hvd_gossip.comm import allreduce
from hvd_gossip.comm.world import World
from hvd_gossip.tasks import Images

BATCH = 500


@dataclass(frozen=True)
class Evaluation:
    """Accuracies are fractions of 1; lists have one entry for each replica.

    Attributes:
        loss, accuracy: of the averaged model.
        losses, accuracies: of the replicas.
    """

    loss: float
    accuracy: float
    losses: list[float]
    accuracies: list[float]


@torch.no_grad()
def totals(model: nn.Module, images: Images, device: torch.device) -> torch.Tensor:
    """Summed loss, correct answers and samples, float64."""
    model.eval()
    loss, correct = torch.zeros((), dtype=torch.float64), 0
    for begin in range(0, len(images), BATCH):
        inputs = images.inputs[begin : begin + BATCH].to(device)
        labels = images.labels[begin : begin + BATCH].to(device)
        outputs = model(inputs)
        loss += nn.functional.cross_entropy(outputs, labels, reduction="sum").double().cpu()
        correct += int((outputs.argmax(dim=1) == labels).sum())
    return torch.tensor([float(loss), correct, len(images)], dtype=torch.float64)


def evaluate(model: nn.Module, test: Images, world: World, device: torch.device) -> Evaluation:
    """Every rank evaluates its own replica on the whole set, and a part of it with the averaged model."""
    training = model.training
    own = totals(model, test, device)
    part = Images(test.inputs[world.rank :: world.size], test.labels[world.rank :: world.size])
    with hvd.averaged(model):
        mean = allreduce.sum_(world.comm, totals(model, part, device))
    model.train(training)
    replicas = world.comm.allgather((float(own[0] / own[2]), float(own[1] / own[2])))
    return Evaluation(
        loss=float(mean[0] / mean[2]),
        accuracy=float(mean[1] / mean[2]),
        losses=[loss for loss, _ in replicas],
        accuracies=[accuracy for _, accuracy in replicas],
    )
