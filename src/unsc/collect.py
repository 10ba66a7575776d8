"""Stream the rows of a model's layers into moments, a batch at a time: the one way to do so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from unsc.batches import Batch
from unsc.datasets import by_class
from unsc.errors import InvalidData
from unsc.layers import Layer, observe
from unsc.logits import check_logits, logits_of
from unsc.models import editable_layers, working_copy
from unsc.moments import Moment, Moments
from unsc.progress import Advance, Progress, quiet

CHUNK_BYTES = 256 << 20
"""Memory for the rows of one layer at a time, unless told otherwise."""


def collect(
    model: nn.Module,
    layers: Iterable[Layer],
    batches: Iterable[Batch],
    *,
    into: dict[str, Moment] | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    advance: Advance = lambda: None,
) -> dict[str, Moment]:
    """The moment of all samples in `batches`, by layer name, added to those in `into` if there are any.

    `model` is in evaluation mode. Needs memory for one moment of each layer, one batch, and `chunk_bytes`.
    """
    layers = tuple(layers)
    moments = {x.name: Moment(x.groups, x.columns) for x in layers} if into is None else into

    def receive(layer: Layer, rows: Tensor) -> None:
        moments[layer.name].update(rows)

    with observe(model, layers, receive, chunk_bytes=chunk_bytes):
        for batch in batches:
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
