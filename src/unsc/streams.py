"""What is kept of data that can only be read from beginning to end, as an iterable data set gives it.

It is read once. Of every class a sample of equal chances is kept: each sample draws a number, and those with the
lowest ones stay. Where they would take more memory than allowed, fewer of each class are kept from then on.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from unsc.batches import Batch, join
from unsc.datasets import Source
from unsc.forms import Form
from unsc.on_demand import bytes_of


def is_stream(data: object) -> bool:
    """Whether this is an iterable data set, or a loader of one."""
    return isinstance(data.dataset if isinstance(data, DataLoader) else data, IterableDataset)


@dataclass(order=True)
class _Drawn:
    """A sample and the number that it drew, negated: the first in a heap is the first to go."""

    number: float
    position: int
    sample: Batch = field(compare=False)
    size: int = field(compare=False)


class _Part:
    """Samples of some classes, of which at most `room` of each class and `most` bytes in all are kept."""

    def __init__(self, room: int, most: int) -> None:
        self.room, self.most, self.bytes = room, most, 0
        self.by_class: dict[int, list[_Drawn]] = {}

    def add(self, label: int, drawn: _Drawn) -> None:
        own = self.by_class.setdefault(label, [])
        heapq.heappush(own, drawn)
        self.bytes += drawn.size
        self._trim(own)
        while self.bytes > self.most and self.room > 1:
            self.room = max(map(len, self.by_class.values())) // 2
            for one in self.by_class.values():
                self._trim(one)

    def _trim(self, own: list[_Drawn]) -> None:
        while len(own) > max(self.room, 1):
            self.bytes -= heapq.heappop(own).size


class _Rows(Dataset[Batch]):
    """Samples that were kept, each a batch of one."""

    def __init__(self, rows: list[Batch]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> Batch:
        return self.rows[i]


def kept_of(
    batches: Iterable[Batch], *, going: Container[int], per_class: int, most: int, seed: int
) -> tuple[Source, Tensor]:
    """What is kept of a stream, in the order in which it came, and the labels (n,).

    Of the classes `going` as many samples as fit into `most` bytes; of each other class at most `per_class`, and all
    of them together in as many bytes again.
    """
    generator = torch.Generator().manual_seed(seed)
    goes, stays = _Part(1 << 62, most), _Part(per_class, most)
    position, paddings = 0, {}
    for batch in batches:
        paddings = paddings or dict(batch.paddings)
        numbers = torch.rand(len(batch), generator=generator, dtype=torch.float64).tolist()
        for i, (label, number) in enumerate(zip(batch.labels.tolist(), numbers, strict=True)):
            sample = batch[torch.tensor([i])]
            part = goes if label in going else stays
            part.add(label, _Drawn(-number, position, sample, bytes_of(sample)))
            position += 1
    drawn = sorted((d for part in (goes, stays) for own in part.by_class.values() for d in own), key=_position)
    rows = [d.sample for d in drawn]
    labels = torch.cat([row.labels for row in rows]) if rows else torch.zeros(0, dtype=torch.long)
    return Source(_Rows(rows), Form(collate=join, paddings=paddings)), labels


def _position(drawn: _Drawn) -> int:
    return drawn.position
