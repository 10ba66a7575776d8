"""Dense networks for 32x32 pictures (Huang et al., Densely connected convolutional networks, CVPR 2017)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unsc.bench.networks.scale import scaled
from unsc.errors import InvalidRequest


class _Dense(nn.Module):
    """A 1x1 convolution to four times `growth` channels and a 3x3 one to `growth`, which join the input's channels."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, 4 * growth, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(torch.relu(self.bn1(x)))
        return torch.cat([x, self.conv2(torch.relu(self.bn2(y)))], dim=1)


class DenseNet(nn.Sequential):
    """DenseNet-BC with a growth of 12 channels: three blocks of (`depth` - 4) / 6 layers, each of two convolutions.

    Between blocks a 1x1 convolution halves the channels, and pooling the sides. `stride` is the first convolution's:
    2 has the blocks see a quarter of the pixels, for a quarter of the time.
    """

    def __init__(
        self, num_classes: int = 10, *, channels: int = 3, width: float = 1.0, depth: int = 100, stride: int = 1
    ) -> None:
        layers, rest = divmod(depth - 4, 6)
        if layers < 1 or rest:
            raise InvalidRequest(
                f"a DenseNet-BC has 10, 16, 22, ... layers, not {depth}; give 4 more than a multiple of 6"
            )
        growth = scaled(12, width)
        features = 2 * growth
        parts: list[nn.Module] = [nn.Conv2d(channels, features, 3, stride, 1, bias=False)]
        for block in range(3):
            if block > 0:
                halved = features // 2
                parts += [nn.BatchNorm2d(features), nn.ReLU(), nn.Conv2d(features, halved, 1, bias=False)]
                parts += [nn.AvgPool2d(2)]
                features = halved
            parts += [_Dense(features + i * growth, growth) for i in range(layers)]
            features += layers * growth
        parts += [nn.BatchNorm2d(features), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        super().__init__(*parts, nn.Linear(features, num_classes))
