"""All that is needed to carry out a request: the network, its layers, and four sets of samples.

Samples to *fit* are what something is estimated or learned from; samples to *check* are held out of that, and say how
well it went. Both exist for what is retained and for what is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from unsc.batches import Batch, join
from unsc.datasets import read
from unsc.errors import InvalidData
from unsc.layers import Layer
from unsc.request import Request
from unsc.targets import Targets
from unsc.watch import Watch

BATCH = 64
"""Samples in a forward pass that only looks."""


@dataclass(frozen=True)
class RetainFit:
    """Retained samples to fit to, class by class, read when they are needed and not kept."""

    read: Callable[[Tensor], Batch]
    """Gives the samples at positions (n,)."""
    positions: dict[int, Tensor]
    """Where the samples of each class are, int64 (n,)."""

    @classmethod
    def from_batch(cls, batch: Batch) -> RetainFit:
        """Of samples that are at hand."""
        labels = batch.labels.cpu()
        return cls(batch.__getitem__, {k: (labels == k).nonzero().flatten() for k in labels.unique().tolist()})

    def __len__(self) -> int:
        return sum(map(len, self.positions.values()))

    def of_class(self, label: int) -> Iterator[Batch]:
        """The samples of one class, in batches."""
        for chosen in self.positions[label].split(BATCH):
            batch = self.read(chosen)
            strange = batch.labels[batch.labels != label]
            if len(strange):
                raise InvalidData(
                    f"labels says {label} where the data set gives {int(strange[0])}; leave labels out, or correct it"
                )
            yield batch

    def all(self) -> Iterator[Batch]:
        """The samples of all classes, one class after another, in batches of one class."""
        return chain.from_iterable(map(self.of_class, self.positions))

    def number_of_batches(self) -> int:
        return sum(-(-len(own) // BATCH) for own in self.positions.values())

    def draw(self, count: int, size: int, generator: torch.Generator) -> Iterator[Batch]:
        """At most `count` samples at random, in batches of `size`."""
        if not self.positions:
            return
        everything = torch.cat(list(self.positions.values()))
        for chosen in everything[torch.randperm(len(everything), generator=generator)[:count]].split(size):
            yield self.read(chosen)


@dataclass(frozen=True)
class Samples:
    """The samples that a run looks at."""

    forget_fit: Batch
    """What the network learns other labels for."""
    forget_check: Batch
    """What tells when to stop: held-out samples of forgotten classes, or the records themselves."""
    retain_fit: RetainFit
    """What the guide is made from; empty if the guide is at hand already."""
    retain_check: list[Batch]
    """What the guide was not made from: here retained predictions are watched."""


@dataclass(frozen=True)
class Task:
    """A request with all that is needed to carry it out, but for the guide."""

    original: nn.Module
    """The network before the run, in evaluation mode; it does not change."""
    layers: tuple[Layer, ...]
    request: Request
    samples: Samples
    watch: Watch
    targets: Targets
    seed: int
    chunk_bytes: int
    """Memory for the rows of one layer at a time."""


def draw_retained(
    dataset: Dataset[object], labels: Tensor, *, per_class: int, label_key: str | None, seed: int
) -> tuple[RetainFit, list[Batch]]:
    """Up to `per_class` samples of each class to fit, and others to check, of data with these `labels` (n,)."""
    generator = torch.Generator().manual_seed(seed)
    fit: dict[int, Tensor] = {}
    check: list[Tensor] = []
    for k in labels.unique().tolist():
        own = (labels == k).nonzero().flatten()
        own = own[torch.randperm(len(own), generator=generator)]
        held_out = min(64, max(1, len(own) // 5), max(4, per_class // 4))
        check.append(own[:held_out])
        fit[k] = own[held_out : held_out + per_class]
    chosen = torch.cat(check)
    order = torch.randperm(len(chosen), generator=torch.Generator().manual_seed(seed))
    take = partial(_read, dataset, label_key)
    return RetainFit(take, fit), [take(part) for part in chosen[order].split(BATCH)]


def split_forgotten(batch: Batch, share: float, *, most: int = 256, seed: int) -> tuple[Batch, Batch]:
    """Forgotten samples to fit, and the `share` of them, at most `most`, that only tells when to stop.

    With a share of 0 all samples serve both ends.
    """
    if share == 0:
        return batch, batch
    # A tenth of a small class is too few samples to tell anything: take up to a quarter of it.
    held_out = min(most, max(1, int(share * len(batch)), min(64, len(batch) // 4)))
    if held_out == len(batch):
        return batch, batch
    order = torch.randperm(len(batch), generator=torch.Generator().manual_seed(seed))
    return batch[order[held_out:]], batch[order[:held_out]]


def read_all(dataset: Dataset[object], size: int, *, label_key: str | None) -> Batch:
    """The first `size` samples of a data set, which fit into memory."""
    return join([_read(dataset, label_key, chosen) for chosen in torch.arange(size).split(BATCH)])


def _read(dataset: Dataset[object], label_key: str | None, positions: Tensor) -> Batch:
    return read(dataset, positions.tolist(), label_key=label_key)
