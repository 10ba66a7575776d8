"""Stream the rows of a model's layers into moments, a batch at a time: the one way to do so.

A moment of d columns is known well from a few times d rows, while a convolution gives one row for each position of
each sample. A `RowBudget` says how many rows to take; which ones is drawn at random, evenly over samples and
positions, and they are weighted so that the estimate is unbiased.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.datasets import by_class
from unsc.errors import InvalidData
from unsc.layers import Draw, Layer, observe
from unsc.logits import check_logits, logits_of
from unsc.models import editable_layers, working_copy
from unsc.moments import Moment, Moments
from unsc.progress import Advance, Progress, quiet

CHUNK_BYTES = 256 << 20
"""Memory for the rows of one layer at a time, unless told otherwise."""


@dataclass(frozen=True)
class RowBudget:
    """How many rows of each layer a moment of `samples` samples is made from, drawn by a generator."""

    samples: int
    generator: torch.Generator
    per_column: int = 16

    def draw(self, layer: Layer, rows: int, samples: int) -> Draw | None:
        """Some of the rows of a call on so many of the samples: one of each sample at least, None for all."""
        count = max(samples, math.ceil(self.per_column * layer.columns * samples / self.samples))
        return draw_evenly(rows, count, self.generator)


def draw_evenly(rows: int, count: int, generator: torch.Generator) -> Draw | None:
    """At most `count` of so many rows, scaled so that the expected moment is that of all of them; None for all.

    The rows are cut into `count` runs of equal length, up to one row, and one row of each run is drawn. They come
    sample by sample, position by position, so this spreads the drawn ones evenly over both. A row that stands for
    a run of m rows is multiplied by the root of m.
    """
    if count >= rows:
        return None
    edges = torch.arange(count + 1) * rows // count
    length = edges.diff()
    drawn = edges[:-1] + (torch.rand(count, generator=generator, dtype=torch.float64) * length).long()
    return Draw(drawn, length.double().sqrt())


def collect(
    model: nn.Module,
    layers: Iterable[Layer],
    batches: Iterable[Batch],
    *,
    into: dict[str, Moment] | None = None,
    rows: RowBudget | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    advance: Advance = lambda: None,
) -> dict[str, Moment]:
    """The moment of all samples in `batches`, by layer name, added to those in `into` if there are any.

    `model` is in evaluation mode. With a budget of `rows` the moments are unbiased estimates, else exact. Needs
    memory for one moment of each layer, one batch, and `chunk_bytes`.
    """
    layers = tuple(layers)
    moments = {x.name: Moment(x.groups, x.columns) for x in layers} if into is None else into
    samples = 0

    def draw(layer: Layer, count: int) -> Draw | None:
        return None if rows is None else rows.draw(layer, count, samples)

    def receive(layer: Layer, found: Tensor) -> None:
        moments[layer.name].update(found)

    with observe(model, layers, receive, chunk_bytes=chunk_bytes, draw=draw):
        for batch in batches:
            samples = len(batch)
            check_logits(logits_of(model, batch.for_model(model)))
            advance()
    return moments


def collect_moments(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    num_classes: int,
    samples_per_class: int = 256,
    label_key: str | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    progress: Progress = quiet,
) -> Moments:
    """Every class's moments from at most `samples_per_class` samples each, in one pass over `loader`.

    Needs memory for one moment per class and layer, since a loader gives its classes in any order; `forget` goes
    class by class and needs one per layer.
    """
    model = working_copy(model)
    layers: tuple[Layer, ...] = ()
    frozen: dict[str, str] = {}
    collected: dict[int, dict[str, Moment]] = {}
    samples: dict[int, int] = {}
    with progress("moments", num_classes * samples_per_class) as advance:
        for batch in by_class(loader, limit=samples_per_class, label_key=label_key):
            label = int(batch.labels[0])
            if not 0 <= label < num_classes:
                raise InvalidData(
                    f"a sample has label {label}; with num_classes={num_classes}, 0 to {num_classes - 1} are allowed"
                )
            if not layers:
                layers, frozen = editable_layers(model, batch)
            collected[label] = collect(model, layers, [batch], into=collected.get(label), chunk_bytes=chunk_bytes)
            samples[label] = samples.get(label, 0) + len(batch)
            for _ in range(len(batch)):
                advance()
    if not collected:
        raise InvalidData("the loader gave no sample; give a loader of the training data")
    return Moments(layers, frozen, dict(sorted(collected.items())), samples, num_classes)
