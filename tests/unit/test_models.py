"""Models: shapes of what comes out, known numbers of parameters, and gradients that reach everything."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from hvd_gossip.models import MODELS, SmallCNN, resnet20


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (1, 28, 28), (2, 9, 13)])
def test_one_output_for_each_class(name: str, shape: tuple[int, int, int]) -> None:
    model = MODELS[name](shape, 7)
    outputs = model(torch.randn(4, *shape))
    assert outputs.shape == (4, 7)
    nn.functional.cross_entropy(outputs, torch.tensor([0, 1, 2, 3])).backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())


def test_resnet20_has_the_papers_size() -> None:
    """The 0.27 M of arXiv:1512.03385, table 6; 19 convolutions and one linear layer that have weights."""
    model = resnet20((3, 32, 32), 10)
    assert sum(p.numel() for p in model.parameters()) == 269722
    assert sum(isinstance(module, nn.Conv2d) for module in model.modules()) == 19
    assert sum(isinstance(module, nn.Linear) for module in model.modules()) == 1


def test_resnet20_halves_the_image_twice() -> None:
    shapes: list[torch.Size] = []
    model = resnet20((3, 32, 32), 10)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(lambda module, inputs, output: shapes.append(output.shape[1:]))
    model(torch.zeros(1, 3, 32, 32))
    assert list(dict.fromkeys(shapes)) == [(16, 32, 32), (32, 16, 16), (64, 8, 8)]
    assert [shapes.count(shape) for shape in dict.fromkeys(shapes)] == [7, 6, 6]


@pytest.mark.parametrize(("shape", "width"), [((1, 8, 8), 16), ((3, 9, 7), 4)])
def test_size_of_the_small_network(shape: tuple[int, int, int], width: int) -> None:
    channels, height, breadth = shape
    convolutions = 9 * channels * width + 2 * width + 9 * width * 2 * width + 4 * width
    linear = (2 * width * (height // 2) * (breadth // 2) + 1) * 64 + 65 * 10
    assert sum(p.numel() for p in SmallCNN(shape, 10, width).parameters()) == convolutions + linear


@pytest.mark.parametrize("name", MODELS)
def test_the_seed_decides_the_initial_model(name: str) -> None:
    states = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        states.append(nn.utils.parameters_to_vector(MODELS[name]((1, 8, 8), 10).parameters()))
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])
