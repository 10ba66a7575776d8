"""The paper's four cases: which network learns which data set, and how, on a GPU or on a small CPU.

Network, batch size, learning rate, weight decay and epochs of "paper" are from Chen et al., Machine Unlearning via
Null Space Calibration (IJCAI 2024), Table "Experiment details" in the appendix. The paper states neither
augmentation, AlexNet's dropout nor All-CNN's number of filters: the first is the customary one of each data set, the
second AlexNet's own one half, and All-CNN has half the filters, as is common in public code for unlearning. "cpu" is
ours: narrower networks, less dropout and one short cycle of the learning rate, for one or two threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import nn
from torch.utils.data import Dataset, Subset

from unsc.bench.data.split import Split
from unsc.bench.networks import network
from unsc.bench.training.augment import Augmentation
from unsc.bench.training.protocol import PAPER, Protocol
from unsc.datasets import read_labels
from unsc.errors import InvalidRequest, unknown


@dataclass(frozen=True)
class Preset:
    """A network and how it is trained."""

    dataset: str
    network: str
    width: float
    protocol: Protocol
    options: dict[str, float]
    """More of the network's own arguments."""

    def build(self, split: Split, *, seed: int) -> nn.Module:
        """A new network for the data, its first weights drawn by the `seed`."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = network(self.network, len(split.classes), split.channels, self.width, **self.options)
        # Convolutions take a third less time on a CPU.
        return made.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


@dataclass(frozen=True)
class _Row:
    network: str
    augmentation: Augmentation
    paper_width: float
    cpu_width: float
    cpu_epochs: int
    cpu_batch_size: int = 128
    cpu_lr: float = 0.1
    paper_options: dict[str, float] = field(default_factory=dict)
    cpu_options: dict[str, float] = field(default_factory=dict)


_TABLE = {
    "fashion-mnist": _Row(
        "alexnet",
        "none",
        paper_width=1.0,
        cpu_width=1.0,
        cpu_epochs=4,
        paper_options={"dropout": 0.5},
        cpu_options={"dropout": 0.2},  # few epochs leave little to regularise
    ),
    "svhn": _Row("vgg11", "crop", paper_width=1.0, cpu_width=0.25, cpu_epochs=8),
    "cifar-10": _Row("allcnn", "crop-flip", paper_width=0.5, cpu_width=0.5, cpu_epochs=6),
    "cifar-100": _Row("resnet18", "crop-flip", paper_width=1.0, cpu_width=0.25, cpu_epochs=6),
}

PRESETS: dict[str, dict[str, Preset]] = {
    "paper": {
        name: Preset(
            name, row.network, row.paper_width, replace(PAPER, augmentation=row.augmentation), row.paper_options
        )
        for name, row in _TABLE.items()
    },
    "cpu": {
        name: Preset(
            name,
            row.network,
            row.cpu_width,
            Protocol(
                epochs=row.cpu_epochs,
                batch_size=row.cpu_batch_size,
                lr=row.cpu_lr,
                schedule="one-cycle",
                augmentation=row.augmentation,
            ),
            row.cpu_options,
        )
        for name, row in _TABLE.items()
    },
}


def preset(dataset: str, name: str) -> Preset:
    """The preset `name`, "paper" or "cpu", of a data set."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    if dataset not in PRESETS[name]:
        raise unknown("preset for data set", dataset, PRESETS[name])
    return PRESETS[name][dataset]


def split_validation(train: Dataset, share: float = 0.1, *, seed: int) -> tuple[Subset, Subset]:
    """Training and validation part: of each class the `share`, rounded, drawn by the `seed`, is for validation."""
    if not 0 < share < 1:
        raise InvalidRequest(f"the validation share is {share}; give a number between 0 and 1")
    labels = read_labels(train)
    generator = torch.Generator().manual_seed(seed)
    held_out = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        members = (labels == label).nonzero().flatten()
        order = torch.randperm(len(members), generator=generator)
        held_out[members[order[: round(share * len(members))]]] = True
    if held_out.all() or not held_out.any():
        raise InvalidRequest(
            f"a validation share of {share} of {len(labels)} samples leaves one of the two parts empty; give another"
        )
    kept, validation = ((~held_out).nonzero().flatten(), held_out.nonzero().flatten())
    return Subset(train, kept.tolist()), Subset(train, validation.tolist())
