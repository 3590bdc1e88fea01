"""ResNet20 in its CIFAR form: three stages of three basic blocks with 16, 32 and 64 channels.

Shortcuts that change shape take every second pixel and pad channels with zeros (the paper's option A), so the model
has 0.27 million parameters. Source: arXiv:1512.03385, section 4.2.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class BasicBlock(nn.Module):
    """`relu(x + bn(conv(relu(bn(conv(x))))))`, with the parameter-free shortcut where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride, self.padding = stride, outputs - inputs

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x
        if self.padding:
            half = self.padding // 2
            shortcut = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, half, self.padding - half))
        residual = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(shortcut + residual)


class CifarResNet(nn.Module):
    """ResNet of depth 6·blocks + 2 for small images."""

    def __init__(self, shape: tuple[int, int, int], classes: int, blocks: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(shape[0], 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        layers = []
        for inputs, outputs, stride in ((16, 16, 1), (16, 32, 2), (32, 64, 2)):
            layers.append(BasicBlock(inputs, outputs, stride))
            layers.extend(BasicBlock(outputs, outputs, 1) for _ in range(blocks - 1))
        self.stages = nn.Sequential(*layers)
        self.classifier = nn.Linear(64, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.stages(self.stem(images)).mean(dim=(2, 3)))


def resnet20(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """ResNet20 for small images.

    Args:
        shape: (channels, height, width) of one image.
        classes: number of outputs.

    Example:
        >>> sum(p.numel() for p in resnet20((3, 32, 32), 10).parameters())
        269722

    Source: arXiv:1512.03385.
    """
    return CifarResNet(shape, classes, blocks=3)
