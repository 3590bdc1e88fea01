"""Parameters as views of flat buffers, one buffer for each dtype and device, so that averaging packs nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.parameter import UninitializedParameter

ALIGNMENT = 64
"""Bytes to which every parameter is aligned, as torch aligns its own allocations: kernels take the same path."""


class Slot(NamedTuple):
    """Where one tensor lies in the buffers."""

    buffer: int
    offset: int
    shape: torch.Size
    stride: tuple[int, ...]

    @property
    def end(self) -> int:
        """The place behind the last value."""
        return self.offset + self.shape.numel()

    def view(self, buffers: Sequence[Tensor]) -> Tensor:
        """The tensor as a view of its buffer, with its own strides."""
        buffer = buffers[self.buffer]
        # as_strided counts from the begin of the storage, of which the buffer may be a part.
        return buffer.as_strided(self.shape, self.stride, buffer.storage_offset() + self.offset)


class Layout:
    """Slots for tensors in as few buffers as their dtypes and devices allow.

    Args:
        tensors: dense tensors; memory formats such as channels-last are kept.
        shared: tensors that are one piece of memory get one slot together.
        extra: elements for each tensor that every buffer has at its end besides.

    Raises:
        ValueError: two tensors share a part of their memory only, or a tensor has no memory yet.
    """

    def __init__(self, tensors: Sequence[Tensor], shared: bool = True, extra: int = 0) -> None:
        check_tensors(tensors)
        kinds = list(dict.fromkeys((tensor.dtype, tensor.device) for tensor in tensors))
        self.kinds = kinds
        self.slots: list[Slot] = []
        self.lengths = [0] * len(kinds)
        known: dict[tuple, Slot] = {}
        for index, tensor in enumerate(tensors):
            key = (tensor.data_ptr(), tensor.shape, tensor.stride()) if shared and tensor.numel() else (index,)
            if key not in known:
                known[key] = self._append(kinds.index((tensor.dtype, tensor.device)), tensor)
            self.slots.append(known[key])
        self.members = [[i for i, slot in enumerate(self.slots) if slot.buffer == k] for k in range(len(kinds))]
        self.tails = [len(members) * extra for members in self.members]

    def _append(self, buffer: int, tensor: Tensor) -> Slot:
        stride = torch.empty_like(tensor.detach(), device="meta").stride()
        slot = Slot(buffer, self.lengths[buffer], tensor.shape, stride)
        step = max(1, ALIGNMENT // tensor.element_size())
        self.lengths[buffer] += -(-tensor.numel() // step) * step
        return slot

    def allocate(self) -> list[Tensor]:
        """New buffers, filled with zeros."""
        sizes = zip(self.kinds, self.lengths, self.tails, strict=True)
        return [torch.zeros(length + tail, dtype=dtype, device=device) for (dtype, device), length, tail in sizes]


def check_tensors(tensors: Sequence[Tensor]) -> None:
    """Refuse tensors that cannot become views of a buffer."""
    spans: dict[int, list[tuple[int, int, tuple[int, ...], tuple[int, ...]]]] = {}
    for tensor in tensors:
        if isinstance(tensor, UninitializedParameter):
            raise ValueError("got a lazy parameter without a shape: run the model on one batch before wrapping")
        if tensor.layout != torch.strided:
            raise ValueError(f"got a parameter of layout {tensor.layout}: expected dense parameters")
        if tensor.numel():
            reach = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)) + 1
            begin = tensor.data_ptr()
            span = (begin, begin + reach * tensor.element_size(), tuple(tensor.shape), tensor.stride())
            spans.setdefault(tensor.untyped_storage().data_ptr(), []).append(span)
    for storage in spans.values():
        ordered = sorted(set(storage))
        if any(first[1] > second[0] for first, second in itertools.pairwise(ordered)):
            raise ValueError(
                "two parameters share a part of their memory: tie whole parameters, or give each its own memory"
            )


class FlatParameters:
    """Moves parameters into flat buffers, of which they become views; values, shapes and strides stay.

    Args:
        parameters: what the optimizer updates; tied ones once or several times.

    Attributes:
        buffers: one contiguous vector for each dtype and device; gaps between parameters hold zeros. These tensors stay
            the same objects, their memory may change with each round.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = list(parameters)
        layout = Layout(self.parameters)
        self.buffers = layout.allocate()
        for parameter, slot in zip(self.parameters, layout.slots, strict=True):
            view = slot.view(self.buffers)
            view.copy_(parameter.detach())
            parameter.data = view
        self._slots, self._side = layout.slots, 0
        self._views = [[parameter.data for parameter in self.parameters]]
        self._remember()

    def _remember(self) -> None:
        self._addresses = [[view.data_ptr() for view in views] for views in self._views]

    @property
    def kinds(self) -> list[tuple[torch.dtype, int]]:
        """Dtype and length of each buffer."""
        return [(buffer.dtype, buffer.numel()) for buffer in self.buffers]

    def settle(self, places: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Move the buffers to the first of two places each, between which `turn` changes."""
        for buffer, (first, _) in zip(self.buffers, places, strict=True):
            first.copy_(buffer)
        homes = list(zip(*places, strict=True))
        self._views = [[slot.view(home) for slot in self._slots] for home in homes]
        self._homes, self._side = homes, 1
        self._remember()
        self.turn()

    def turn(self) -> None:
        """Let buffers and parameters be what lies in the other place."""
        self._side = 1 - self._side
        for buffer, home in zip(self.buffers, self._homes[self._side], strict=True):
            buffer.data = home
        for parameter, view in zip(self.parameters, self._views[self._side], strict=True):
            parameter.data = view

    def end(self, index: int) -> tuple[int, int]:
        """The buffer in which a parameter lies, and where it ends there."""
        slot = self._slots[index]
        return slot.buffer, slot.end

    def spread(self, values: Sequence[float]) -> list[float | Tensor]:
        """A value of each parameter for each buffer: one number where it is the same, else a vector [d]."""
        found: list[float | Tensor] = []
        for index, buffer in enumerate(self.buffers):
            pairs = [(slot, value) for slot, value in zip(self._slots, values, strict=True) if slot.buffer == index]
            if len({value for _, value in pairs}) == 1:
                found.append(pairs[0][1])
                continue
            vector = torch.zeros(len(buffer), dtype=buffer.dtype.to_real(), device=buffer.device)
            for slot, value in pairs:
                vector[slot.offset : slot.end] = value
            found.append(vector)
        return found

    def turn_some(self, indices: Iterable[int]) -> None:
        """Let these parameters be what lies in the other place, ahead of `turn`."""
        for index in indices:
            self.parameters[index].data = self._views[1 - self._side][index]

    def current(self) -> Sequence[Tensor]:
        """Where the buffers are."""
        return self._homes[self._side]

    def other(self) -> Sequence[Tensor]:
        """The buffers' other places."""
        return self._homes[1 - self._side]

    def intact(self, parameters: Sequence[Tensor]) -> bool:
        """Whether exactly these parameters still are the views: `module.to(…)` and the like replace them."""
        return len(parameters) == len(self.parameters) and all(
            one is other and one.data_ptr() == address
            for one, other, address in zip(parameters, self.parameters, self._addresses[self._side], strict=True)
        )


class FlatGradients:
    """Gradients gathered into flat buffers for exchange, and given back as views of them.

    Two flags for each parameter travel behind the gradients: whether it has one, and whether that is sparse.  A
    parameter that no replica has a gradient for keeps none, so that its optimizer passes it over.

    Args:
        parameters: whose gradients are meant.

    Attributes:
        values: the buffers without their flags.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = list(parameters)
        self._layout = Layout([torch.empty_like(p) for p in self.parameters], shared=False, extra=2)
        self.buffers = self._layout.allocate()
        self._views = [slot.view(self.buffers) for slot in self._layout.slots]
        self.values = [b[:length] for b, length in zip(self.buffers, self._layout.lengths, strict=True)]

    def gather(self) -> list[Tensor]:
        """Copy every gradient into its place, zeros where there is none; returns the buffers."""
        for buffer, members, length in zip(self.buffers, self._layout.members, self._layout.lengths, strict=True):
            gradients = [self.parameters[i].grad for i in members]
            for i, gradient in zip(members, gradients, strict=True):
                self._put(self._views[i], gradient)
            flags = [(g is not None, g is not None and g.is_sparse) for g in gradients]
            buffer[length:] = torch.tensor(flags, dtype=buffer.dtype).flatten()
        return self.buffers

    @staticmethod
    def _put(view: Tensor, gradient: Tensor | None) -> None:
        if gradient is None:
            view.zero_()
        elif gradient.is_sparse:
            view.copy_(gradient.to_dense())
        elif gradient.data_ptr() != view.data_ptr():
            view.copy_(gradient)

    def scatter(self, shared: bool = True) -> None:
        """Give every parameter its exchanged gradient; rows that are zero everywhere leave a sparse one.

        Args:
            shared: whether the flags are those of all replicas; else a parameter without a gradient of its own gets one
                where that is not zero.
        """
        for buffer, members, length in zip(self.buffers, self._layout.members, self._layout.lengths, strict=True):
            flags = buffer[length:].view(-1, 2).abs().gt(0).tolist()
            for i, (present, sparse) in zip(members, flags, strict=True):
                view = self._views[i]
                present = present or (not shared and bool(view.any()))
                self.parameters[i].grad = (view.to_sparse(1) if sparse else view) if present else None
