"""Scenarios whose networks know their training data by heart, so that forgetting records shows.

A network that gets unseen samples right as often as its own has nothing to forget of a record.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset, TensorDataset

from unsc.bench.data.cifar_10 import cifar_10
from unsc.bench.data.digits import digits
from unsc.bench.data.shared.split import Split
from unsc.bench.datasets import data_folder
from unsc.bench.networks import digits_cnn
from unsc.bench.networks.resnet import ResNet8
from unsc.bench.train import Trained, fit, train
from unsc.bench.training.protocol import Protocol
from unsc.compare.scenarios import Scenario
from unsc.cost import Cost
from unsc.datasets import read, size_of
from unsc.errors import InvalidRequest

NOISE = 0.2
"""The share of digits whose label is wrong."""
SIZES = 6000, 2000, 4000
"""CIFAR-10 photographs to train on, for validation and for the test."""
PROTOCOL = Protocol(24, 128, schedule="one-cycle", augmentation="flip", precision="bfloat16")


def noisy_digits(preset: str | None = None) -> Scenario:
    """The digits, a fifth of them under a wrong label, which can only be learned by heart; 958, 240 and 599 of them.

    Labels of validation and test are wrong as often: unseen samples must be like records, or an attack would tell them
    apart by their labels alone. No network can get more than four fifths of them right.
    """
    _no_preset("digits-noisy", preset)
    split = digits()
    images = torch.cat([split.train.tensors[0], split.test.tensors[0]])
    labels = with_noise(torch.cat([split.train.tensors[1], split.test.tensors[1]]), NOISE, len(split.classes), seed=0)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0)).tolist()
    everything = TensorDataset(images, labels)
    kept, held_out, test = (Subset(everything, some) for some in (order[:958], order[958:1198], order[1198:]))

    def recipe(dataset: Dataset, seed: int) -> nn.Module:
        batch = read(dataset, range(size_of(dataset)))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = digits_cnn()
        return fit(model, batch.inputs, batch.labels, epochs=40, lr=0.05, batch_size=64, seed=seed)

    return Scenario("digits-noisy", kept, held_out, test, len(split.classes), digits_cnn, recipe)


def with_noise(labels: Tensor, share: float, num_classes: int, *, seed: int) -> Tensor:
    """`labels` (n,), of which a random `share` is another class, each equally likely."""
    generator = torch.Generator().manual_seed(seed)
    wrong = torch.rand(len(labels), generator=generator) < share
    away = torch.randint(1, num_classes, (len(labels),), generator=generator)
    return torch.where(wrong, (labels + away) % num_classes, labels)


def few_photographs(preset: str | None = None) -> Scenario:
    """6,000 photographs of CIFAR-10 and a ResNet-8 that is trained on them for 24 epochs, with mirror images."""
    _no_preset("records", preset)
    return of_photographs(cifar_10(data_folder("cifar-10")), SIZES, PROTOCOL)


def of_photographs(split: Split, sizes: tuple[int, int, int], protocol: Protocol) -> Scenario:
    """The same of another split: so many samples to train on and for validation, and of its test part."""
    first, second, third = sizes
    order = torch.randperm(len(split.train), generator=torch.Generator().manual_seed(0)).tolist()
    kept, held_out = Subset(split.train, order[:first]), Subset(split.train, order[first : first + second])
    classes = len(split.classes)

    def trained(dataset: Dataset, seed: int, checkpoint: Path | None = None) -> Trained:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = ResNet8(classes, channels=split.channels).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return train(model, dataset, None, protocol, seed=seed, checkpoint=checkpoint)

    def resumable(dataset: Dataset, seed: int, checkpoint: Path) -> tuple[nn.Module, Cost]:
        done = trained(dataset, seed, checkpoint)
        return done.model, done.cost

    return Scenario(
        "records",
        kept,
        held_out,
        Subset(split.test, range(third)),
        classes,
        lambda: ResNet8(classes, channels=split.channels).to(memory_format=torch.channels_last),  # type: ignore[call-overload]
        lambda dataset, seed: trained(dataset, seed).model,
        resumable=resumable,
        about={"network": "resnet8", **asdict(protocol), "milestones": list(protocol.milestones)},
    )


def _no_preset(name: str, preset: str | None) -> None:
    if preset is not None:
        raise InvalidRequest(f"{name}@{preset}: {name} has no presets; name it by itself")
