"""Rows before and after they are copied: a kind says what they are, and here they are made, in bounded memory."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from unsc.layers.layer import Layer, Use
from unsc.memory import in_pieces


class Rows(ABC):
    """The rows of one call, not copied yet, in the order of samples and of positions within a sample.

    Patches of a convolution overlap, and one-hot rows are almost empty: all of them at once may not fit in memory, so
    only a part is made at a time.
    """

    @property
    @abstractmethod
    def samples(self) -> int:
        """How many parts there are at most."""

    @property
    @abstractmethod
    def positions(self) -> int:
        """Rows of each sample."""

    @property
    @abstractmethod
    def itemsize(self) -> int:
        """Bytes of one entry."""

    @abstractmethod
    def part(self, start: int, stop: int) -> Tensor:
        """The weight's own columns for the samples `start:stop`, (groups, *inputs, samples, *positions)."""

    @abstractmethod
    def drawn(self, chosen: Tensor) -> Tensor:
        """Those of single rows, at `chosen` (k,) among all samples' positions: (groups, *inputs, k)."""

    def correlations(self, most_bytes: int) -> Correlations | None:
        """What their moment follows from, if that is found sooner than the rows, in so much memory; else None."""
        return None


@dataclass
class Correlations:
    """Sums of products of channels, for each pair of entries of a kernel: the moment of patches, in parts."""

    blocks: dict[tuple[int, int], Tensor]
    """By pair of entries (a, b) with a <= b: float64 (groups, channels, channels)."""
    sums: Tensor
    """Of the patches' entries: float64 (groups, channels, entries)."""
    count: int
    """Patches, in each group."""

    def add(self, other: Correlations) -> None:
        for pair, block in other.blocks.items():
            known = self.blocks.setdefault(pair, block)
            if known is not block:
                known += block
        self.sums = self.sums + other.sums
        self.count += other.count


@dataclass(frozen=True)
class Draw:
    """Some rows instead of all of them."""

    chosen: Tensor
    """Which ones, int64 (k,)."""
    scale: Tensor
    """What each is multiplied by, (k,): the root of the number of rows that it stands for."""


@dataclass(frozen=True)
class Strided(Rows):
    """Rows that are a view of the input, which may overlap itself."""

    view: Tensor
    """(groups, *inputs, samples, *positions)"""
    along: int
    """The dimension of the samples."""
    flipped: tuple[int, ...] = ()
    """Dimensions of the inputs to be read backwards. A view cannot be, so that this is done part by part."""

    @property
    def samples(self) -> int:
        return self.view.shape[self.along]

    @property
    def positions(self) -> int:
        return math.prod(self.view.shape[self.along + 1 :])

    @property
    def itemsize(self) -> int:
        return self.view.element_size()

    def part(self, start: int, stop: int) -> Tensor:
        chosen = self.view.narrow(self.along, start, stop - start)
        return chosen.flip(self.flipped) if self.flipped else chosen

    def drawn(self, chosen: Tensor) -> Tensor:
        index: list[Tensor] = []
        left = chosen.to(self.view.device)
        for size in reversed(self.view.shape[self.along :]):
            index.insert(0, left % size)
            left = left // size
        # Only the entries of the chosen rows are read: the view of all patches is never written out.
        found = self.view[(slice(None),) * self.along + tuple(index)]
        return found.flip(self.flipped) if self.flipped else found


def flat(x: Tensor) -> Strided:
    """Rows of a plain linear map: `x` (..., inputs) with its leading dimensions flattened."""
    return Strided(x.reshape(-1, x.shape[-1]).T[None], along=2)


@dataclass(frozen=True)
class Chunks:
    """All rows of a use, or those of a `draw`, made a chunk at a time."""

    layer: Layer
    use: Use
    rows: Rows
    draw: Draw | None = None

    @property
    def count(self) -> int:
        """How many units can be made apart: samples, or single rows if they were drawn."""
        return self.rows.samples if self.draw is None else len(self.draw.chosen)

    def size(self, chunk_bytes: int) -> int:
        """So many units take at most `chunk_bytes`, but one at least."""
        row_bytes = self.layer.groups * self.layer.columns * self.rows.itemsize
        return max(1, chunk_bytes // max(1, row_bytes * (self.rows.positions if self.draw is None else 1)))

    def make(self, start: int, stop: int) -> Tensor:
        """The rows of the units `start:stop`, (groups, n, columns)."""
        if self.draw is None:
            return _with_ones(self.layer, self.use, self.rows.part(start, stop))
        found = _with_ones(self.layer, self.use, self.rows.drawn(self.draw.chosen[start:stop]))
        return found * self.draw.scale[start:stop].to(found)[:, None]


def chunks(layer: Layer, use: Use, rows: Rows, chunk_bytes: int) -> Iterator[Tensor]:
    """All rows: (groups, n, columns), of at most `chunk_bytes`, but of one sample at least; less if memory runs out."""
    made = Chunks(layer, use, rows)
    return in_pieces(made.count, made.size(chunk_bytes), made.make)


def _with_ones(layer: Layer, use: Use, columns: Tensor) -> Tensor:
    """Rows (groups, n, columns) from the weight's own columns, (groups, *inputs, *n).

    Stored column by column: patches overlap along positions, so this copies four times faster.
    """
    n = columns[0].numel() // layer.inputs
    stored = columns.new_zeros(layer.groups, layer.columns, n)
    stored[:, : layer.inputs].view(columns.shape).copy_(columns)
    if use.bias is not None:
        stored[:, layer.inputs + layer.biases.index(use.bias)] = 1
    return stored.mT
