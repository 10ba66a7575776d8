"""Networks and data for the examples on requests, laid out in a folder as an engineer would have them.

Digits need no files. The public ResNet-20 for CIFAR-10 needs its checkpoint and the data set's original files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.utils.data import Dataset

from unsc.batches import Batch
from unsc.bench.data.cifar_10 import cifar_10
from unsc.bench.data.digits import scenario
from unsc.datasets import read, size_of
from unsc.loading.weights import read_weights

APP = '''"""What the commands import: how to build the network, and how to make tensors of what the files hold."""

import torch

from unsc.bench.networks.digits import digits_cnn as digits
from unsc.bench.networks.resnet import ResNet20 as resnet20

MEAN, STD = torch.tensor([0.485, 0.456, 0.406])[:, None, None], torch.tensor([0.229, 0.224, 0.225])[:, None, None]


def normalised(image):
    return (torch.from_numpy(image.copy()).float() / 255 - MEAN) / STD
'''
PER_USER = 16
"""Training samples that each made-up user has."""


@dataclass(frozen=True)
class Part:
    """Samples with ids, and the user whose each is."""

    inputs: Tensor
    labels: Tensor
    ids: np.ndarray
    users: np.ndarray

    def save(self, path: Path, chosen: np.ndarray | None = None) -> None:
        """As an .npz; only the `chosen` positions, if they are given."""
        keep = np.arange(len(self.ids)) if chosen is None else chosen
        inputs, labels = self.inputs.numpy()[keep], self.labels.numpy()[keep]
        np.savez(path, x=inputs, y=labels, id=self.ids[keep], user=self.users[keep])


@dataclass(frozen=True)
class Subject:
    """A trained network in a folder, with its training data and two sets that it was not trained on."""

    folder: Path
    factory: str
    transform: str | None
    train: Part
    validation: Part
    test: Part
    test_batch: Batch
    """As the network takes it."""


def digits(folder: Path, seed: int = 0) -> Subject:
    """A small CNN, trained here on 958 digits; 240 for validation, 599 for the test."""
    data = scenario()
    save_file(data.recipe(data.train, seed).state_dict(), _laid_out(folder) / "model.safetensors")
    parts = [_part(name, _whole(part)) for name, part in _parts(data.train, data.validation, data.test)]
    return _saved(folder, "story_app:digits", None, parts, _whole(data.test))


def resnet20(folder: Path, data: Path, checkpoint: Path) -> Subject:
    """The public ResNet-20, trained on all of CIFAR-10's training images; half of the test images for validation."""
    split = cifar_10(data)
    save_file(_tensors(checkpoint), _laid_out(folder) / "model.safetensors")
    test = _whole(split.test)
    half = torch.arange(len(test)) % 2 == 0
    batches = _whole(split.train), test[half], test[~half]
    parts = [_part(name, Batch(_bytes(batch.inputs), batch.labels)) for name, batch in _parts(*batches)]
    return _saved(folder, "story_app:resnet20", "story_app:normalised", parts, batches[2])


def _laid_out(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "story_app.py").write_text(APP)
    return folder


def _saved(folder: Path, factory: str, transform: str | None, parts: list[Part], test: Batch) -> Subject:
    train, validation, last = parts
    train.save(folder / "train.npz")
    validation.save(folder / "validation.npz")
    return Subject(folder, factory, transform, train, validation, last, test)


def _parts(*parts):  # type: ignore[no-untyped-def]
    return zip(("train", "validation", "test"), parts, strict=True)


def _part(name: str, batch: Batch) -> Part:
    count = len(batch)
    ids = np.array([f"{name}-{i}" for i in range(count)])
    users = np.array([f"u-{i % max(1, count // PER_USER)}" for i in range(count)])
    return Part(batch.inputs, batch.labels, ids, users)


def _whole(dataset: Dataset) -> Batch:
    return read(dataset, range(size_of(dataset)))


def _bytes(images: Tensor) -> Tensor:
    """Pixels 0 to 255, as the files had them."""
    own: dict = {}
    exec(APP, own)
    return ((images * own["STD"] + own["MEAN"]) * 255).round().clamp(0, 255).byte()


def _tensors(checkpoint: Path) -> dict[str, Tensor]:
    return {name.removeprefix("module."): t.contiguous() for name, t in read_weights(checkpoint).items()}
