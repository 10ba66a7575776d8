"""All-CNN, which the paper uses for CIFAR-10."""

from __future__ import annotations

from torch import nn

from unsc.bench.networks.scale import scaled


class AllCNN(nn.Sequential):
    """All-CNN-C of Springenberg et al. (Striving for simplicity, ICLR workshop 2015) with batch norm.

    Strided convolutions stand in for pooling, and the picture's mean feeds the classifier. The published network
    ends with a 1x1 convolution to the classes and then the mean over pixels. Here the mean comes first and a linear
    layer second. Both are linear, so they commute: the logits are the same, the weights are the same numbers, and
    what probes or edits a final linear layer works here as elsewhere. It would not be the same with a ReLU between
    the two, which the published table lists and which would keep every logit from being negative; there is none
    here. All 3x3 convolutions are padded, so the mean is over 8x8 pixels, not 6x6. Public code for unlearning commonly
    takes half the filters: `width=0.5`.
    """

    def __init__(self, num_classes: int = 10, *, channels: int = 3, width: float = 1.0) -> None:
        layers: list[nn.Module] = []
        previous = channels
        few, many = scaled(96, width), scaled(192, width)
        for filters, kernel, stride in (
            (few, 3, 1),
            (few, 3, 1),
            (few, 3, 2),
            (many, 3, 1),
            (many, 3, 1),
            (many, 3, 2),
            (many, 3, 1),
            (many, 1, 1),
        ):
            convolution = nn.Conv2d(previous, filters, kernel, stride, padding=kernel // 2)
            layers += [convolution, nn.BatchNorm2d(filters), nn.ReLU()]
            previous = filters
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(previous, num_classes))
