"""What happens in one `step`: round, gradient half, update and mixing, overflow of a GradScaler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from hvd_gossip.algorithms import Algorithm, Local, Solo
from hvd_gossip.algorithms.base import Rates, State
from hvd_gossip.algorithms.state import plain, restored
from hvd_gossip.comm.fusion import FlatGradients, FlatParameters, check_tensors
from hvd_gossip.comm.world import World
from hvd_gossip.mixing import Mixer


class Engine:
    """Runs an algorithm over the flat parameters of an optimizer.

    Args:
        optimizer: whose parameters move; its own update is handed to `step`.
        algorithm: what is done.
        mixer: how the replicas are averaged.
        world: the ranks.
        names: the parameters' names by id.
        scale: by what exchanged gradients are multiplied (n for a sum, else 1).
        overlap: whether `start` is called before gradients are computed, and `finish` before parameters are used.

    Attributes:
        round: steps so far; epoch: as the user told it.

    Raises:
        ValueError: on every rank, when the parameters differ between ranks in shape, dtype or order.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        algorithm: Algorithm,
        mixer: Mixer,
        world: World,
        names: Mapping[int, str],
        scale: int = 1,
        overlap: bool = False,
    ) -> None:
        # One replica has nobody to agree with: it trains as the plain optimizer does, with the same rules of use.
        self.asked, self.algorithm = algorithm, algorithm if world.size > 1 else Solo()
        self.mixer, self.world = mixer, world
        self.round, self.epoch = 0, 0
        self.state: State = None
        self._optimizer = optimizer
        self._names = names
        self._scale = scale
        self._overlap, self._deferred = overlap, False
        self._arrived: set[int] = set()
        self._synchronized = False
        self._gradients: FlatGradients | None = None
        self._fuse()
        self._begun = False
        self._saved: Any = None

    @property
    def gradient_comes_first(self) -> bool:
        """Whether gradients must be there before the optimizer's own step is called."""
        return self.asked.uses_gradient or self.asked.mixes_first

    def _trained(self) -> list[Tensor]:
        """Parameters that are trained now, each once; frozen ones are neither moved nor averaged."""
        parameters = (p for group in self._optimizer.param_groups for p in group["params"] if p.requires_grad)
        return list({id(p): p for p in parameters}.values())

    def _fuse(self) -> None:
        parameters = self._trained()
        self.world.together(lambda: check_tensors(parameters))
        described = [(self._name(p), tuple(p.shape), str(p.dtype)) for p in parameters]
        self.world.agree("the list of trained parameters (name, shape, dtype)", described)
        self.flat = FlatParameters(parameters)
        self._index = {id(p): index for index, p in enumerate(parameters)}
        self.mixer.settle(self.flat, self._overlap)
        self._gradients = None

    def _name(self, parameter: Tensor) -> str:
        return self._names.get(id(parameter), "a parameter added later")

    def _begin(self) -> None:
        """Parameters may have been replaced, added, frozen or freed since the last step, on all ranks alike."""
        self.finish()
        if not self.flat.intact(self._trained()):
            self._fuse()
            self._begun = False
        if not self._begun:
            self._begun, self.state = True, self.algorithm.init(self.flat.buffers)
            if self._saved is not None:
                self.state, self._saved = restored(self.state, self._saved), None
        self.mixer.begin(self.algorithm.rounds(self.round), self.epoch)

    @torch.no_grad()
    def start(self) -> None:
        """Let a mixing that the step begins with go on from now; parameters must not change until the step."""
        if self._overlap and self.algorithm.mixes_first and not self._synchronized:
            self._begin()
            self.mixer.start(self.flat.buffers)

    @torch.no_grad()
    def finish(self) -> None:
        """End a mixing that the last step has left to go on."""
        if self._deferred:
            self._deferred = False
            self._arrived.clear()
            self.mixer.mix(self.flat.buffers)

    @torch.no_grad()
    def arrive(self, parameters: Iterable[Tensor]) -> None:
        """End a mixing that the last step has left to go on as far as these parameters need it."""
        if not self._deferred:
            return
        indices = [self._index[id(p)] for p in parameters if id(p) in self._index]
        new = [index for index in indices if index not in self._arrived]
        if all(self.mixer.arrived(*self.flat.end(index)) for index in new):
            self.flat.turn_some(new)
            self._arrived.update(new)
        else:
            self.finish()

    @property
    def arriving(self) -> bool:
        """Whether some parameters are mixed already, and others not yet."""
        return bool(self._arrived)

    def interrupt(self) -> None:
        """End what goes on, for the parameters are about to change; what was started is done again."""
        self.finish()
        self.mixer.forget()

    @torch.no_grad()
    def synchronize(self) -> None:
        """Do the gradient half of this step now, unless that is done already or the algorithm has none."""
        if self._synchronized:
            return
        self._begin()
        if self.algorithm.uses_gradient:
            if self._gradients is None:
                self._gradients = FlatGradients(self.flat.parameters)
            buffers = self._gradients.gather()
            shared = self.algorithm.centralized
            values = buffers if shared else self._gradients.values
            self.state = self.algorithm.gradient(self.flat.buffers, values, self._local(), self.mixer, self.state)
            if self._scale != 1:
                torch._foreach_mul_(buffers, self._scale)
            self._gradients.scatter(shared)
        self._synchronized = True

    def expect_synchronized(self) -> None:
        """Refuse to skip what has not been done."""
        if self.asked.uses_gradient and not self._synchronized:
            raise ValueError("skip_synchronize() without synchronize(): call optimizer.synchronize() first")

    def step(self, update: Callable[[], None]) -> None:
        """One whole step; `update` is the optimizer's own."""
        scaled, overflow = self._unscale()
        if overflow and self.algorithm.uses_gradient and not self.algorithm.centralized:
            # What would be infinite here would reach everyone by and by: this rank has no gradient in this step.
            overflow = False
            for parameter in self._trained():
                parameter.grad = None
        self.synchronize()
        if scaled and self._gradients is not None and self.algorithm.centralized:
            # Every rank holds the same gradient now, so every rank decides the same.
            overflow = not all(bool(buffer.isfinite().all()) for buffer in self._gradients.buffers)

        def guarded_update() -> None:
            if not overflow:
                update()

        mixer = Deferred(self.mixer) if self._overlap and self.algorithm.mixes_last else self.mixer
        with torch.no_grad():
            self.state = self.algorithm.step(self.flat.buffers, self._local(guarded_update), mixer, self.state)
        self._deferred = mixer is not self.mixer
        self._synchronized = False
        self.round += 1

    def _local(self, update: Callable[[], None] = lambda: None) -> Local:
        """What the algorithm may know of this rank's own optimizer."""
        return Local(update, self.round, self._rates)

    def _rates(self) -> Rates:
        """The learning rates: a number for each buffer, or a vector where its parameters have different ones."""
        rates = {id(p): float(group["lr"]) for group in self._optimizer.param_groups for p in group["params"]}
        return self.flat.spread([rates[id(p)] for p in self.flat.parameters])

    def _unscale(self) -> tuple[bool, bool]:
        """Undo a GradScaler's factor; returns whether there is one, and whether this rank's gradients overflowed."""
        optimizer: Any = self._optimizer
        if getattr(optimizer, "found_inf", None) is None:
            return False, False
        overflow = bool(optimizer.found_inf)
        if optimizer.grad_scale is not None:
            inverse = 1.0 / float(optimizer.grad_scale)
            for parameter in self._trained():
                if parameter.grad is not None:
                    parameter.grad.mul_(inverse)
        # An optimizer that unscales by itself finds nothing left to do.
        optimizer.grad_scale, optimizer.found_inf = None, None
        return True, overflow

    def state_dict(self) -> dict[str, Any]:
        """What has to be saved besides the parameters and the optimizer's state."""
        self.finish()
        state = plain(self.state) if self._begun else self._saved
        return {"round": self.round, "epoch": self.epoch, "algorithm": state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken."""
        self.interrupt()
        self.round, self.epoch = int(state.get("round", 0)), int(state.get("epoch", 0))
        self._synchronized = False
        self._forget_state(state.get("algorithm"))

    def start_afresh(self) -> None:
        """Let the algorithm begin anew with the next step: what it remembers is of other parameters."""
        self.interrupt()
        self._forget_state()

    def _forget_state(self, saved: Any = None) -> None:
        """What the algorithm remembers is made with the next step, or restored from what was saved."""
        self._begun, self._saved = False, saved


class Deferred:
    """A mixer whose `mix`, the last thing in a step, only begins; `Engine.finish` ends it.

    Args:
        mixer: that does it.
    """

    def __init__(self, mixer: Mixer) -> None:
        self.size, self.traffic, self.mix = mixer.size, mixer.traffic, mixer.start
        self.begin, self.start, self.settle, self.forget = mixer.begin, mixer.start, mixer.settle, mixer.forget
        self.arrived, self.mean, self.mean_of = mixer.arrived, mixer.mean, mixer.mean_of
        self.mix_compressed, self.self_weight = mixer.mix_compressed, mixer.self_weight
