"""Samples that are read when they are needed, where there are too many to be kept, or copied when they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from unsc import peers
from unsc.batches import Batch, HasSamples, join, tensors_of
from unsc.errors import InvalidData

Take: TypeAlias = Callable[[Tensor], Batch]
"""Gives the samples at positions (k,)."""


@dataclass(frozen=True)
class OnDemand:
    """Samples of which the labels are known; like a batch, `samples[chosen]` are some of them."""

    labels: Tensor
    """int64 (n,)."""
    take: Take
    positions: Tensor
    """Where the samples are that `take` gives, int64 (n,)."""

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, chosen: Tensor) -> Batch:
        """The samples at `chosen` (k,), read now."""
        if len(chosen) == 0:
            return self[torch.zeros(1, dtype=torch.long)][chosen]
        batch = self.take(self.positions[chosen])
        wrong = (batch.labels.cpu() != self.labels[chosen].cpu()).nonzero().flatten().tolist()
        if wrong:
            said, is_ = int(self.labels[chosen][wrong[0]]), int(batch.labels[wrong[0]])
            raise InvalidData(f"labels says {said} where the data set gives {is_}; leave labels out, or correct it")
        return batch

    def part(self, chosen: Tensor) -> OnDemand:
        """Those at `chosen` (k,), to be read when they are needed."""
        return replace(self, labels=self.labels[chosen], positions=self.positions[chosen])


def picked(samples: HasSamples, chosen: Tensor) -> OnDemand:
    """The samples at `chosen` (k,), without a copy of those that are at hand."""
    if isinstance(samples, OnDemand):
        return samples.part(chosen)
    return OnDemand(samples.labels[chosen], samples.__getitem__, chosen.to(samples.labels.device))


def read_together(take: Take, parts: Sequence[Tensor]) -> list[Batch]:
    """The batches at some `parts` of the positions, which all ranks need: each is read by one of them."""
    everyone = peers.gathered([take(part) for part in peers.mine(parts)])
    return [everyone[i % peers.count()][i // peers.count()] for i in range(len(parts))]


def bytes_of(batch: Batch) -> int:
    """What the inputs of a batch take in memory."""
    return sum(t.numel() * t.element_size() for t in tensors_of(batch.inputs))


def kept_or_read(take: Take, labels: Callable[[], Tensor], size: int, *, batch: int, keep: int) -> HasSamples:
    """All of `size` samples: kept if they take at most `keep` bytes by what the first one takes, else read on demand.

    `labels` gives theirs (n,); they are only asked for if samples are not kept.
    """
    if bytes_of(take(torch.zeros(1, dtype=torch.long))) * size > keep:
        return OnDemand(labels(), take, torch.arange(size))
    return join(read_together(take, torch.arange(size).split(batch)))
