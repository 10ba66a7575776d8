"""Stream the rows of a model's layers into moments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn

from unsc.batches import Batch
from unsc.datasets import by_class
from unsc.errors import InvalidData
from unsc.layers import Layer, observe
from unsc.logits import check_logits, logits_of
from unsc.models import editable_layers, working_copy
from unsc.moments import Moment, Moments
from unsc.progress import Progress, quiet


def collect_moments(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    num_classes: int,
    samples_per_class: int = 256,
    label_key: str | None = None,
    chunk_bytes: int = 256 << 20,
    progress: Progress = quiet,
) -> Moments:
    """Every class's moments from at most `samples_per_class` samples each, in one pass over `loader`.

    Needs memory for one moment per class and layer, and `chunk_bytes` for the patches under way.
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
            of_class = collected.setdefault(label, {x.name: Moment(x.groups, x.columns) for x in layers})
            add_rows(model, layers, batch, of_class, chunk_bytes=chunk_bytes)
            samples[label] = samples.get(label, 0) + len(batch)
            for _ in range(len(batch)):
                advance()
    if not collected:
        raise InvalidData("the loader gave no sample; give a loader of the training data")
    return Moments(layers, frozen, dict(sorted(collected.items())), samples, num_classes)


def add_rows(
    model: nn.Module, layers: Iterable[Layer], batch: Batch, moments: Mapping[str, Moment], *, chunk_bytes: int
) -> None:
    """Add the rows of one batch to `moments`, by layer name."""

    def receive(layer: Layer, rows: Tensor) -> None:
        moments[layer.name].update(rows)

    with observe(model, layers, receive, chunk_bytes=chunk_bytes):
        check_logits(logits_of(model, batch.for_model(model)))
