"""The cases: a trained network, its data, the classes to forget in turn, and the settings to compare."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from unsc.bench import networks
from unsc.bench.datasets import Split, load
from unsc.bench.train import fit
from unsc.errors import InvalidRequest
from unsc.progress import Progress
from unsc.storage.files import write_whole


@dataclass(frozen=True)
class Case:
    """A network to forget from."""

    name: str
    model: nn.Module
    data: Split
    classes: tuple[int, ...]
    methods: dict[str, dict[str, Any]] = field(default_factory=lambda: {"unsc": {}})
    """Options of `unsc.forget`, by the method's name in the table."""


def digits(data: Path | None, checkpoint: Path | None, cache: Path, progress: Progress) -> Case:
    """scikit-learn's digits, the demo's CNN: each class with the defaults, and with the paper's step."""
    split = load("digits")
    model = _trained(networks.digits_cnn, split, cache / "digits-cnn.safetensors", progress, epochs=20, lr=0.05)
    return Case("digits", model, split, tuple(range(10)), {"unsc": {}, "unsc_paper": {"step": "paper"}})


def mlp(data: Path | None, checkpoint: Path | None, cache: Path, progress: Progress) -> Case:
    """A digits perceptron with two hidden layers of 4,096 units, and 20 samples a class for the moments."""
    split = load("digits")
    model = _trained(networks.digits_mlp, split, cache / "digits-mlp.safetensors", progress, epochs=10, lr=0.05)
    return Case("mlp", model, split, tuple(range(10)), {"unsc": {"samples_per_class": 20}})


def alexnet(data: Path | None, checkpoint: Path | None, cache: Path, progress: Progress) -> Case:
    """FashionMNIST with the paper's AlexNet, four epochs, dropout off: class 6."""
    split = load("fashion-mnist", data)
    model = _trained(networks.AlexNet, split, cache / "alexnet.safetensors", progress, epochs=4, lr=0.1, batch_size=128)
    paper = {"step": "paper", "lr": 0.06, "max_passes": 2}
    return Case("alexnet", model, split, (6,), {"unsc": {}, "unsc_paper": paper})


def resnet20(data: Path | None, checkpoint: Path | None, cache: Path, progress: Progress) -> Case:
    """A public ResNet-20 for CIFAR-10 that this project did not train: each class, both steps, two passes."""
    if checkpoint is None:
        raise InvalidRequest("resnet20 needs the public checkpoint resnet20-12fca82f.th: give --checkpoint FILE")
    loaded = torch.load(checkpoint, weights_only=True, map_location="cpu")
    model = networks.ResNet20()
    model.load_state_dict({name.removeprefix("module."): t for name, t in loaded["state_dict"].items()})
    methods = {"unsc": {}, "unsc_paper": {"step": "paper", "max_passes": 2}}
    return Case("resnet20", model.eval(), load("cifar-10", data), tuple(range(10)), methods)


def _trained(
    make: Any, data: Split, path: Path, progress: Progress, *, batch_size: int = 64, **settings: Any
) -> nn.Module:
    """The network from `path`, or trained now and kept there."""
    torch.manual_seed(0)
    model = make()
    if path.exists():
        model.load_state_dict(load_file(path))
        return model.eval()
    images, labels = data.train.tensors
    fit(model, images, labels, batch_size=batch_size, progress=progress, **settings)
    state: dict[str, Tensor] = model.state_dict()
    write_whole(path, lambda p: save_file(state, p))
    return model


CASES = {"digits": digits, "mlp": mlp, "alexnet": alexnet, "resnet20": resnet20}
