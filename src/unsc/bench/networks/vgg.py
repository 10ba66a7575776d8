"""VGG-11 for 32x32 pictures, which the paper uses for SVHN."""

from __future__ import annotations

from torch import nn

from unsc.bench.networks.scale import scaled


class VGG11(nn.Sequential):
    """Configuration A of Simonyan and Zisserman (Very deep convolutional networks, ICLR 2015) with batch norm.

    Five max poolings leave one pixel of 512 channels of a 32x32 picture, so a single linear layer follows in the
    place of the three that the published network has for 224x224 pictures.
    """

    def __init__(self, num_classes: int = 10, *, channels: int = 3, width: float = 1.0) -> None:
        layers: list[nn.Module] = []
        previous = channels
        for stage in ((64,), (128,), (256, 256), (512, 512), (512, 512)):
            for full in stage:
                filters = scaled(full, width)
                layers += [nn.Conv2d(previous, filters, 3, padding=1), nn.BatchNorm2d(filters), nn.ReLU()]
                previous = filters
            layers += [nn.MaxPool2d(2)]
        super().__init__(*layers, nn.Flatten(), nn.Linear(previous, num_classes))
