"""Stream the rows of a model's layers into moments, a batch at a time: the one way to do so.

A moment of d columns is known well from a few times d rows, while a convolution gives one row for each position of
each sample. A `RowBudget` says how many rows to take; which ones is drawn at random, evenly over samples and
positions, and they are weighted so that the estimate is unbiased.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unsc import peers
from unsc.batches import Batch, pieces
from unsc.checks import is_whole, require
from unsc.datasets import by_class
from unsc.errors import InvalidData
from unsc.layers import Correlations, Draw, Layer, Use, moment_of, observe
from unsc.logits import check_logits, in_step, logits_of
from unsc.memory import out_of_memory, ran_out
from unsc.models import digest_of, editable_layers, said_of_few, working_copy
from unsc.moments import Moment, Moments, of_nothing
from unsc.progress import Advance, Progress, quiet
from unsc.wrappers import unwrapped

NOTHING = Draw(torch.zeros(0, dtype=torch.long), torch.zeros(0))
"""No row at all."""
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
    said: Callable[[Tensor], object] = lambda logits: None,
) -> dict[str, Moment]:
    """The moment of all samples in `batches`, by layer name, added to those in `into` if there are any.

    `said` is told the logits (n, classes) of all samples in turn, some at a time.

    `model` is in evaluation mode. With a budget of `rows` the moments are unbiased estimates, else exact. Needs
    memory for one moment of each layer, one batch, and `chunk_bytes`; where that is too much, chunks and batches are
    cut smaller.
    """
    layers = tuple(layers)
    moments = of_nothing(layers) if into is None else into
    stream = _Stream(model, moments, rows, said)
    seen = observe(model, layers, stream.receive, chunk_bytes=chunk_bytes, draw=stream.draw, correlate=stream.correlate)
    with seen:
        for batch in in_step(model, batches):
            stream.forward(batch.for_model(model))
            advance()
    stream.finish()
    return moments


class _Stream:
    """Forward passes whose rows are added to moments, each row once, also if memory runs out on the way."""

    def __init__(
        self,
        model: nn.Module,
        moments: dict[str, Moment],
        rows: RowBudget | None,
        said: Callable[[Tensor], object],
    ) -> None:
        self.model, self.moments, self.rows, self.said = model, moments, rows, said
        self._samples = 0
        self._calls = Counter[str]()
        """How often each layer was used in this forward pass."""
        self._received = Counter[str]()
        """How many of the uses were received before, in a pass over more samples that did not come to its end."""
        self._correlated: dict[tuple[Layer, Use], Correlations] = {}
        """What has been seen of layers whose rows are not made."""

    def draw(self, layer: Layer, count: int) -> Draw | None:
        self._calls[layer.name] += 1
        if self._calls[layer.name] <= self._received[layer.name]:
            return NOTHING
        return None if self.rows is None else self.rows.draw(layer, count, self._samples)

    def receive(self, layer: Layer, found: Tensor) -> None:
        self.moments[layer.name].update(found)

    def correlate(self, layer: Layer, use: Use, found: Correlations) -> None:
        if (layer, use) in self._correlated:
            self._correlated[layer, use].add(found)
        else:
            self._correlated[layer, use] = found

    def finish(self) -> None:
        """Put what was seen without making rows into the moments."""
        while self._correlated:
            (layer, use), found = self._correlated.popitem()
            self.moments[layer.name].include(moment_of(found, layer, use), found.count)

    def forward(self, batch: Batch, received: Counter[str] | None = None) -> None:
        """Pass a batch through the network, in halves if that takes too much memory."""
        self._samples, self._calls, self._received = len(batch), Counter(), received or Counter()
        if (error := self._attempt(batch)) is None:
            return
        if len(batch) == 1:
            raise out_of_memory(error)
        so_far = self._calls | self._received
        for half in pieces(batch, -(-len(batch) // 2)):
            self.forward(half, so_far)

    def _attempt(self, batch: Batch) -> BaseException | None:
        """None, or that memory ran out; without what the error holds on to."""
        try:
            logits = logits_of(self.model, batch)
            check_logits(logits)
            self.said(logits.detach())
        except (RuntimeError, MemoryError) as e:
            if ran_out(e):
                return e.with_traceback(None)
            raise
        return None


@peers.joined()
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
    class by class and needs one per layer. Under several ranks each has a loader of its own part, takes its share of
    the samples, and gets the moments of all.
    """
    require("num_classes", num_classes, "a whole number of at least 1", is_whole(num_classes, 1))
    require("samples_per_class", samples_per_class, "a whole number of at least 1", is_whole(samples_per_class, 1))
    peers.agree({"num_classes": num_classes, "the model": digest_of(model)})
    model = working_copy(unwrapped(model).inner)  # ranks have other batches, and not equally many
    layers: tuple[Layer, ...] = ()
    frozen: dict[str, str] = {}
    collected: dict[int, dict[str, Moment]] = {}
    samples: dict[int, int] = {}
    with progress("moments", num_classes * samples_per_class) as advance:
        for batch in by_class(loader, limit=-(-samples_per_class // peers.count()), label_key=label_key):
            label = int(batch.labels[0])
            if not 0 <= label < num_classes:
                raise InvalidData(
                    f"a sample has label {label}; with num_classes={num_classes}, 0 to {num_classes - 1} are allowed"
                )
            if not layers:
                said_of_few(model, batch, "the samples of the loader")
                layers, frozen = editable_layers(model, batch)
            into = collected.setdefault(label, of_nothing(layers))
            collect(model, layers, [batch], into=into, chunk_bytes=chunk_bytes)
            samples[label] = samples.get(label, 0) + len(batch)
            for _ in range(len(batch)):
                advance()
    if not collected:
        where = f" on rank {peers.rank()}" if peers.count() > 1 else ""
        raise InvalidData(f"the loader gave no sample{where}; give a loader of the training data")
    return Moments(layers, frozen, dict(sorted(collected.items())), samples, num_classes).total()
