"""The networks that the demo and the benchmarks use, written to be read."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def digits_cnn(num_classes: int = 10) -> nn.Module:
    """A small CNN for 8x8 digits, about 40,000 weights."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 64),
        nn.ReLU(),
        nn.Linear(64, num_classes),
    )


def digits_mlp(width: int = 4096, num_classes: int = 10) -> nn.Module:
    """A far too wide perceptron for 8x8 digits: many more columns than there are samples."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, num_classes),
    )


class AlexNet(nn.Sequential):
    """The paper's AlexNet for 32x32 pictures: three convolutions and two layers of 2,048 units."""

    def __init__(self, num_classes: int = 10, *, channels: int = 1, dropout: float = 0.0) -> None:
        layers: list[nn.Module] = []
        previous = channels
        for filters, kernel in ((64, 4), (128, 3), (256, 2)):
            layers += [
                nn.Conv2d(previous, filters, kernel),
                nn.BatchNorm2d(filters),
                nn.ReLU(),
                nn.Dropout(dropout),
                nn.MaxPool2d(2),
            ]
            previous = filters
        layers += [nn.Flatten()]
        for units in (1024, 2048):
            layers += [nn.Linear(units, 2048), nn.BatchNorm1d(2048), nn.ReLU(), nn.Dropout(dropout)]
        super().__init__(*layers, nn.Linear(2048, num_classes))


class _Residual(nn.Module):
    """Two 3x3 convolutions and a shortcut without parameters: every other pixel, zero channels added."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride, self.added = stride, outputs - inputs

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        half = self.added // 2
        shortcut = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, half, self.added - half))
        return torch.relu(y + shortcut)


class ResNet20(nn.Module):
    """The CIFAR-10 ResNet of He et al. (2016) with 20 layers and widths 16, 32, 64."""

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        stages = [(16, 16, 1), (16, 32, 2), (32, 64, 2)]
        for i, (inputs, outputs, stride) in enumerate(stages, start=1):
            more = _Residual(outputs, outputs, 1), _Residual(outputs, outputs, 1)
            self.add_module(f"layer{i}", nn.Sequential(_Residual(inputs, outputs, stride), *more))
        self.linear = nn.Linear(64, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.bn1(self.conv1(x)))
        x = self.get_submodule("layer3")(self.get_submodule("layer2")(self.get_submodule("layer1")(x)))
        return self.linear(x.mean(dim=(2, 3)))
