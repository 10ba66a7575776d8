"""Presets: which network learns a data set, and how, on a GPU or on a small CPU.

Network, batch size, learning rate, weight decay and epochs of "paper" are from Chen et al., Machine Unlearning via
Null Space Calibration (IJCAI 2024), Table "Experiment details" in the appendix. The paper states neither
augmentation, AlexNet's dropout nor All-CNN's number of filters: the first is the customary one of each data set, the
second AlexNet's own one half, and All-CNN has half the filters, as is common in public code for unlearning. "recipe" is
"paper" with a shorter schedule. "cpu" and "long" are ours: narrower networks, less dropout and one short cycle of the
learning rate, for one or two threads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset, Subset

from unsc.bench.data.shared.split import Split
from unsc.bench.networks import network
from unsc.bench.training.augment import Augmentation
from unsc.bench.training.protocol import PAPER, Protocol
from unsc.datasets import read_labels
from unsc.errors import InvalidRequest


@dataclass(frozen=True)
class Preset:
    """A network and how it is trained."""

    network: str
    """A name of `unsc.bench.networks`, or `package.module:callable`."""
    width: float
    protocol: Protocol
    options: Mapping[str, float] = field(default_factory=dict)
    """More of the network's own arguments."""

    def build(self, split: Split, *, seed: int) -> nn.Module:
        """A new network for the data, its first weights drawn by the `seed`."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = network(self.network, len(split.classes), split.channels, self.width, **self.options)
        # Convolutions take a third less time on a CPU.
        return made.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def about(self) -> dict[str, Any]:
        """The network and the protocol, as JSON has them."""
        network = {"name": self.network, "width": self.width, **self.options}
        return json.loads(json.dumps({"network": network, "protocol": asdict(self.protocol)}))


def paper(network: str, *, augmentation: Augmentation = "none", width: float = 1.0, **options: float) -> Preset:
    """As the paper trains it."""
    return Preset(network, width, replace(PAPER, augmentation=augmentation), options)


def recipe(
    network: str, *, epochs: int, augmentation: Augmentation = "none", width: float = 1.0, **options: float
) -> Preset:
    """`paper` with its schedule drawn together to so many epochs, all of which are trained, in bfloat16."""
    published = paper(network, augmentation=augmentation, width=width, **options)
    milestones = tuple(round(epochs * at / PAPER.epochs) for at in PAPER.milestones)
    shorter = {"epochs": epochs, "milestones": milestones, "patience": None, "precision": "bfloat16"}
    return replace(published, protocol=replace(published.protocol, **shorter))


def cpu(
    network: str, *, epochs: int, augmentation: Augmentation = "none", width: float = 1.0, **options: float
) -> Preset:
    """A few epochs with one cycle of the learning rate, on a CPU."""
    protocol = Protocol(epochs=epochs, batch_size=128, lr=0.1, schedule="one-cycle", augmentation=augmentation)
    return Preset(network, width, protocol, options)


def long(
    network: str, *, epochs: int, augmentation: Augmentation = "none", width: float = 1.0, **options: float
) -> Preset:
    """`cpu` for longer, in bfloat16: close to the paper's accuracy within an hour of one thread."""
    short = cpu(network, epochs=epochs, augmentation=augmentation, width=width, **options)
    return replace(short, protocol=replace(short.protocol, precision="bfloat16"))


ASIDE = frozenset({"recipe"})
"""Presets of a single trial that stand in a table of their own: verdicts and ranks are by the others."""


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
