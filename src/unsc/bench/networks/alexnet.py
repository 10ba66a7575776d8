"""AlexNet as the paper uses it for FashionMNIST."""

from __future__ import annotations

from torch import nn

from unsc.bench.networks.dropout import Dropout
from unsc.bench.networks.scale import scaled


class AlexNet(nn.Sequential):
    """The paper's AlexNet for 32x32 pictures: three convolutions and two layers of 2,048 units."""

    def __init__(self, num_classes: int = 10, *, channels: int = 1, width: float = 1.0, dropout: float = 0.0) -> None:
        layers: list[nn.Module] = []
        previous = channels
        for filters, kernel in ((scaled(64, width), 4), (scaled(128, width), 3), (scaled(256, width), 2)):
            layers += [
                nn.Conv2d(previous, filters, kernel),
                nn.BatchNorm2d(filters),
                nn.ReLU(),
                Dropout(dropout),
                nn.MaxPool2d(2),
            ]
            previous = filters
        layers += [nn.Flatten()]
        units = scaled(2048, width)
        for inputs in (4 * previous, units):  # 2x2 pixels are left
            layers += [nn.Linear(inputs, units), nn.BatchNorm1d(units), nn.ReLU(), Dropout(dropout)]
        super().__init__(*layers, nn.Linear(units, num_classes))
