"""Small networks for the 8x8 digits."""

from __future__ import annotations

from torch import nn

from unsc.bench.networks.scale import scaled


def digits_cnn(num_classes: int = 10, *, channels: int = 1, width: float = 1.0) -> nn.Module:
    """A small CNN for 8x8 digits, about 40,000 weights."""
    first, second, third, units = (scaled(n, width) for n in (16, 32, 64, 64))
    return nn.Sequential(
        nn.Conv2d(channels, first, 3, padding=1),
        nn.BatchNorm2d(first),
        nn.ReLU(),
        nn.Conv2d(first, second, 3, padding=1),
        nn.BatchNorm2d(second),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(second, third, 3, padding=1),
        nn.BatchNorm2d(third),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * third, units),
        nn.ReLU(),
        nn.Linear(units, num_classes),
    )


def digits_mlp(width: int = 4096, num_classes: int = 10) -> nn.Module:
    """A far too wide perceptron for 8x8 digits: many more columns than there are samples. `width` is in units."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, num_classes),
    )
