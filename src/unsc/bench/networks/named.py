"""A network by its name, or by the import path of a user's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from unsc.bench.networks.alexnet import AlexNet
from unsc.bench.networks.allcnn import AllCNN
from unsc.bench.networks.densenet import DenseNet
from unsc.bench.networks.digits import digits_cnn
from unsc.bench.networks.resnet import ResNet8, ResNet18, ResNet20, ResNet56
from unsc.bench.networks.vgg import VGG11
from unsc.errors import InvalidRequest, unknown
from unsc.loading.code import import_callable

NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "digits-cnn": digits_cnn,
    "alexnet": AlexNet,
    "vgg11": VGG11,
    "allcnn": AllCNN,
    "resnet8": ResNet8,
    "resnet18": ResNet18,
    "resnet20": ResNet20,
    "resnet56": ResNet56,
    "densenet": DenseNet,
}
"""Each takes `num_classes`, `channels` of the input and a `width` multiplier."""


def network(name: str, num_classes: int, channels: int, width: float = 1.0, **options: Any) -> nn.Module:
    """A new network of `NETWORKS`, or what "package.module:callable" makes.

    `channels` counts the input's channels and `width` multiplies the channels inside; `options` go to the network
    as they are (AlexNet's `dropout`). A user's callable is given those of `num_classes`, `channels` and `width`
    that its signature names.
    """
    if num_classes < 2 or channels < 1:
        raise InvalidRequest(
            f"{name} was asked for with {num_classes} classes and {channels} input channels; "
            "give at least 2 classes and 1 channel"
        )
    shape = {"num_classes": num_classes, "channels": channels, "width": width}
    if ":" not in name:
        if name not in NETWORKS:
            raise unknown("network", name, [*NETWORKS, "or an import path package.module:callable"])
        return NETWORKS[name](**shape, **options)
    make = import_callable(name)
    made = make(**_accepted(make, shape), **options)
    if not isinstance(made, nn.Module):
        raise InvalidRequest(f"{name} returned a {type(made).__name__}; it must return a torch.nn.Module")
    return made


def _accepted(make: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Those of `arguments` that the signature of `make` names."""
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):  # some callables written in C have no signature
        return {}
    return {name: value for name, value in arguments.items() if name in parameters}
