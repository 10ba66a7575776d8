"""Residual networks for 32x32 pictures (He et al., Deep residual learning for image recognition, CVPR 2016)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.bench.networks.scale import scaled


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


class _Projected(_Residual):
    """The same with a 1x1 convolution and batch norm on the shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__(inputs, outputs, stride)
        self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.shortcut(x))


class ResNet20(nn.Module):
    """The CIFAR-10 ResNet of He et al. (2016) with 20 layers and widths 16, 32, 64."""

    blocks = 3
    """Of two convolutions, in each of the three stages."""

    def __init__(self, num_classes: int = 10, *, channels: int = 3, width: float = 1.0) -> None:
        super().__init__()
        first, second, third = (scaled(n, width) for n in (16, 32, 64))
        self.conv1 = nn.Conv2d(channels, first, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(first)
        stages = [(first, first, 1), (first, second, 2), (second, third, 2)]
        for i, (inputs, outputs, stride) in enumerate(stages, start=1):
            more = [_Residual(outputs, outputs, 1) for _ in range(self.blocks - 1)]
            self.add_module(f"layer{i}", nn.Sequential(_Residual(inputs, outputs, stride), *more))
        self.linear = nn.Linear(third, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.bn1(self.conv1(x)))
        x = self.get_submodule("layer3")(self.get_submodule("layer2")(self.get_submodule("layer1")(x)))
        return self.linear(x.mean(dim=(2, 3)))


class ResNet8(ResNet20):
    """The same with 8 layers: one block in each stage."""

    blocks = 1


class ResNet56(ResNet20):
    """The same with 56 layers: nine blocks in each stage."""

    blocks = 9


class ResNet18(nn.Sequential):
    """ResNet-18 for 32x32 pictures: a 3x3 stem without pooling, then stages of 64, 128, 256 and 512 channels."""

    def __init__(self, num_classes: int = 10, *, channels: int = 3, width: float = 1.0) -> None:
        previous = scaled(64, width)
        layers: list[nn.Module] = [nn.Conv2d(channels, previous, 3, 1, 1, bias=False), nn.BatchNorm2d(previous)]
        layers += [nn.ReLU()]
        for full, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            outputs = scaled(full, width)
            # The shortcut is projected where the shape changes: never in the first stage.
            first = _Projected if stride > 1 else _Residual
            layers += [first(previous, outputs, stride), _Residual(outputs, outputs, 1)]
            previous = outputs
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(previous, num_classes))
