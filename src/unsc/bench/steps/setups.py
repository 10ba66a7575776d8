"""The setups: a trained network, its data, the classes to forget in turn, and the step rules to compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from unsc.bench import networks
from unsc.bench.datasets import Split, data_folder, load
from unsc.bench.train import fit
from unsc.errors import InvalidRequest
from unsc.progress import Progress, quiet
from unsc.storage.files import write_whole


@dataclass(frozen=True)
class Setup:
    """A network to forget from."""

    name: str
    model: nn.Module
    data: Split
    classes: tuple[int, ...]
    """Those that are forgotten, each in turn."""
    methods: dict[str, dict[str, Any]] = field(default_factory=lambda: {"unsc": {}})
    """Options of `unsc.forget`, by the method's name in the table."""


@dataclass(frozen=True)
class Place:
    """Where networks come from."""

    cache: Path
    """The folder in which networks are kept that were trained here."""
    checkpoint: Path | None = None
    """The public ResNet-20, which was trained by others."""
    progress: Progress = quiet


def digits(place: Place) -> Setup:
    """scikit-learn's digits, the demo's CNN: each class with the defaults, and with the paper's step."""
    split = load("digits")
    model = _trained(networks.digits_cnn, split, "digits-cnn", place, epochs=20, lr=0.05)
    return Setup("digits", model, split, tuple(range(10)), {"unsc": {}, "unsc_paper": {"step": "paper"}})


def mlp(place: Place) -> Setup:
    """A digits perceptron with two hidden layers of 4,096 units, and 20 samples a class for the moments."""
    split = load("digits")
    model = _trained(networks.digits_mlp, split, "digits-mlp", place, epochs=10, lr=0.05)
    return Setup("mlp", model, split, tuple(range(10)), {"unsc": {"samples_per_class": 20}})


def alexnet(place: Place) -> Setup:
    """FashionMNIST with the paper's AlexNet, four epochs, dropout off: class 6."""
    split = load("fashion-mnist", data_folder("fashion-mnist"))
    model = _trained(networks.AlexNet, split, "alexnet", place, epochs=4, lr=0.1, batch_size=128)
    paper = {"step": "paper", "lr": 0.06, "max_passes": 2}
    return Setup("alexnet", model, split, (6,), {"unsc": {}, "unsc_paper": paper})


def resnet20(place: Place) -> Setup:
    """A public ResNet-20 for CIFAR-10 that this project did not train: each class, both steps, two passes."""
    methods = {"unsc": {}, "unsc_paper": {"step": "paper", "max_passes": 2}}
    return _public("resnet20", place, tuple(range(10)), methods)


def resnet20_25(place: Place) -> Setup:
    """The same network and the class of the paper's table: the paper's step with its 25 passes over all samples."""
    paper = {"step": "paper", "max_passes": 25}
    methods = {"unsc": {}, "unsc_paper": {**paper, "lr": 0.04}, "unsc_paper, lr 0.004": {**paper, "lr": 0.004}}
    return _public("resnet20-25", place, (3,), methods)


def _public(name: str, place: Place, classes: tuple[int, ...], methods: dict[str, dict[str, Any]]) -> Setup:
    """The public ResNet-20 and all of CIFAR-10."""
    if place.checkpoint is None:
        raise InvalidRequest(f"{name} needs the public checkpoint resnet20-12fca82f.th: give --checkpoint FILE")
    loaded = torch.load(place.checkpoint, weights_only=True, map_location="cpu")
    model = networks.ResNet20()
    model.load_state_dict({name.removeprefix("module."): t for name, t in loaded["state_dict"].items()})
    return Setup(name, model.eval(), load("cifar-10", data_folder("cifar-10")), classes, methods)


def _trained(
    make: Callable[[], nn.Module],
    data: Split,
    name: str,
    place: Place,
    *,
    epochs: int,
    lr: float,
    batch_size: int = 64,
) -> nn.Module:
    """The network that is kept under this name, or else trained now and kept."""
    path = place.cache / f"{name}.safetensors"
    torch.manual_seed(0)
    model = make()
    if path.exists():
        model.load_state_dict(load_file(path))
        return model.eval()
    fit(model, *data.train.tensors, epochs=epochs, lr=lr, batch_size=batch_size, progress=place.progress)
    state = model.state_dict()
    write_whole(path, lambda p: save_file(state, p))
    return model


SETUPS: dict[str, Callable[[Place], Setup]] = {
    "digits": digits,
    "mlp": mlp,
    "alexnet": alexnet,
    "resnet20": resnet20,
    "resnet20-25": resnet20_25,
}
