"""The training loop: one for every algorithm, graph and task."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from hvd_gossip import tasks, torch as hvd
from hvd_gossip.comm import world
from hvd_gossip.comm.hierarchical_mixer import ranks_of_node
from hvd_gossip.graphs import schedule
from hvd_gossip.graphs.schedules import fingerprint
from hvd_gossip.mixing import WIRES
from hvd_gossip.models import MODELS
from hvd_gossip.tasks import Task
from hvd_gossip.train import config as configuration, device as devices, folders, rates
from hvd_gossip.train.checkpoint import Checkpoints
from hvd_gossip.train.config import TrainConfig, replicas
from hvd_gossip.train.evaluate import evaluate
from hvd_gossip.train.log import Log
from hvd_gossip.train.sampling import Batches


def run(config: TrainConfig) -> Path:
    """Train as told, on every rank of the job; returns the run folder.

    Raises:
        ValueError: on every rank, for values that are impossible, data that is missing, or a run folder that holds
            something else.
    """
    hvd.init()
    here = world.current()
    here.agree("the configuration", configuration.nested(config))
    if config.group_size == "node":
        config = dataclasses.replace(config, group_size=str(ranks_of_node(here)))
    here.together(lambda: configuration.check(config, here.size))
    task = here.together(lambda: tasks.load(config.task, config.data.folder))
    config = configuration.resolve(config, task.recipe, task.model, here.size)
    return Training(config, task, here).run()


class Training:
    """Everything of one run that moves.

    Args:
        config: resolved.
        task: with its data.
        world: the ranks.
    """

    def __init__(self, config: TrainConfig, task: Task, world: world.World) -> None:
        assert config.run is not None and config.epochs is not None and config.model is not None
        self.config, self.task, self.world = config, task, world
        self.folder, self.epochs = Path(config.run), config.epochs
        self.device = world.together(lambda: devices.choose(config.device, world.local_rank, world.local_size))
        devices.share_cores(world.local_size)
        self.batches = Batches(task.train, config.data, world.size, world.rank, config.seed)
        # Shards may differ: the epoch lasts until the last replica is through with its own.
        self.steps = max(world.comm.allgather(len(self.batches)))
        torch.manual_seed(config.seed)
        self.model = MODELS[config.model](task.shape, task.classes).to(self.device)
        hvd.broadcast_parameters(self.model.state_dict())
        self.graph = world.together(lambda: schedule(config.graph, replicas(config, world.size), config.seed))
        self.optimizer = self._optimizer()
        lengths = (self.steps, self.steps * self.epochs)
        self.scheduler = LambdaLR(self.optimizer, rates.factor(config.rate, world.size, *lengths))
        # From here on each replica has random numbers of its own, for dropout and for augmentation.
        torch.manual_seed(config.seed + 1_000_003 * (world.rank + 1))
        self.generator = torch.Generator().manual_seed(config.seed + 2_000_003 * (world.rank + 1))

    def _optimizer(self) -> Any:
        config, rate = self.config.optimizer, self.config.rate
        lr = (rate.base or 0.0) * rates.scale(rate, self.world.size)
        decay = config.weight_decay or 0.0
        parameters = self.model.parameters()
        kinds: dict[str, Any] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
        if config.name == "sgd":
            plain = torch.optim.SGD(
                parameters, lr=lr, momentum=config.momentum, nesterov=config.nesterov, weight_decay=decay
            )
        else:
            plain = kinds[config.name](parameters, lr=lr, weight_decay=decay)
        group_size = None if self.config.group_size is None else int(self.config.group_size)
        return hvd.DistributedOptimizer(
            plain,
            self.model.named_parameters(),
            graph=self.graph,
            algorithm=self.config.algorithm,
            allreduce=self.config.allreduce,
            compression=WIRES[self.config.wire],
            overlap=self.model if self.config.overlap else None,
            parts=list(self.model.children()) if self.config.overlap else (),
            group_size=group_size,
        )

    def run(self) -> Path:
        """All epochs that are not done yet."""
        # A file of edges may be another one by now.
        about = {**configuration.identity(self.config), "edges and weights": fingerprint(self.graph)}
        checkpoints = Checkpoints(self.world, self.folder / "checkpoints", about)
        self._claim_folder()
        done = self._resume(checkpoints)
        log = self.world.together(lambda: self._open_log(done))
        for epoch in range(done, self.epochs):
            record = self._epoch(epoch, log)
            if log:
                log.epoch(record)
            checkpoints.save(epoch + 1, self._state())
        if log:
            log.close()
        self.world.comm.Barrier()
        return self.folder

    def _open_log(self, done: int) -> Log | None:
        """Rank 0 keeps the record."""
        if self.world.rank != 0:
            return None
        return Log(self.folder, done, self.epochs, self.steps, self.config.progress)

    def _claim_folder(self) -> None:
        """Make the run folder and save the resolved configuration, unless it is of another run or in use."""
        values = configuration.nested(self.config)
        mine = self.world.rank == 0
        self._claim = self.world.together(lambda: folders.claim(self.folder, values) if mine else None)

    def _resume(self, checkpoints: Checkpoints) -> int:
        """Epochs that are done already; everything is then as it was after them."""
        found = checkpoints.load()
        if found is None:
            return 0
        done, state = found
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        torch.set_rng_state(state["random"])
        if state["cuda_random"] is not None:
            torch.cuda.set_rng_state(state["cuda_random"], self.device)
        self.generator.set_state(state["augmentation"])
        if self.world.rank == 0 and self.config.progress != "none":
            print(f"{self.folder}: {done} of {self.epochs} epochs are done already", flush=True)
        return done

    def _state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "random": torch.get_rng_state(),
            "cuda_random": torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None,
            "augmentation": self.generator.get_state(),
        }

    def _epoch(self, epoch: int, log: Log | None) -> dict[str, Any]:
        """Train one epoch and evaluate; returns its record, the same on every rank."""
        traffic = self.optimizer.gossip.mixer.traffic
        before = dataclasses.replace(traffic)
        if log:
            log.begin(epoch + 1)
        begin, rate = time.perf_counter(), self.optimizer.param_groups[0]["lr"]
        loss = self._steps(epoch, log)
        seconds = time.perf_counter() - begin
        spent = (
            loss,
            seconds,
            traffic.seconds - before.seconds,
            traffic.bytes - before.bytes,
            traffic.messages - before.messages,
        )
        losses, times, waits, sizes, messages = map(list, zip(*self.world.comm.allgather(spent), strict=True))
        result = evaluate(self.model, self.task.test, self.world, self.device)
        losses_known = [value for value in losses if value is not None]
        return {
            "epoch": epoch + 1,
            "step": (epoch + 1) * self.steps,
            "rate": rate,
            "train_loss": sum(losses_known) / max(1, len(losses_known)),
            "train_losses": losses,
            **dataclasses.asdict(result),
            "accuracy_mean": sum(result.accuracies) / len(result.accuracies),
            "accuracy_worst": min(result.accuracies),
            "consensus_distance": hvd.consensus_distance(self.model),
            "bytes_per_step": max(sizes) / self.steps,
            "messages_per_step": max(messages) / self.steps,
            "seconds": max(times),
            "compute_seconds_per_step": sum(t - w for t, w in zip(times, waits, strict=True)) / len(times) / self.steps,
            "communication_seconds_per_step": sum(waits) / len(waits) / self.steps,
            "communication_seconds": waits,
        }

    def _steps(self, epoch: int, log: Log | None) -> float | None:
        """One pass over this replica's shard; returns its mean loss, or None without data."""
        self.model.train()
        self.optimizer.set_epoch(epoch)
        batches, losses = self.batches.epoch(epoch), []
        for _ in range(self.steps):
            self.optimizer.zero_grad()
            batch = next(batches, None)
            if batch is not None:
                losses.append(self._backward(*batch))
            # Without a batch of its own a replica takes part in the average all the same.
            self.optimizer.step()
            self.scheduler.step()
            if log:
                log.step()
        return float(torch.stack(losses).mean()) if losses else None

    def _backward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if self.task.augment is not None:
            inputs = self.task.augment(inputs, self.generator)
        outputs = self.model(inputs.to(self.device))
        loss = nn.functional.cross_entropy(outputs, labels.to(self.device))
        loss.backward()
        return loss.detach()
