"""A small convolutional network with BatchNorm, for images of 8 x 8 pixels and more."""

from __future__ import annotations

from torch import Tensor, nn


class SmallCNN(nn.Module):
    """Two 3 x 3 convolutions with BatchNorm, one halving of the image, two linear layers.

    Args:
        shape: (channels, height, width) of one image, height and width at least 2.
        classes: number of outputs.
        width: channels of the first convolution; the second has twice as many.

    Example:
        >>> import torch
        >>> SmallCNN((1, 8, 8), 10)(torch.zeros(5, 1, 8, 8)).shape
        torch.Size([5, 10])
    """

    def __init__(self, shape: tuple[int, int, int], classes: int, width: int = 16) -> None:
        super().__init__()
        channels, height, breadth = shape
        self.features = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, padding=1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(2 * width * (height // 2) * (breadth // 2), 64),
            nn.ReLU(),
            nn.Linear(64, classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images))
