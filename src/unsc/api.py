"""One call from a trained model and its training set to a model that has forgotten."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from unsc.batches import Batch, join
from unsc.collect import add_rows
from unsc.datasets import check_map_style, read, read_batches, read_labels
from unsc.errors import InvalidData
from unsc.logits import logits_of
from unsc.loop import split_watched
from unsc.models import count_classes, editable_layers, working_copy
from unsc.moments import Moment, Moments
from unsc.options import Options
from unsc.progress import Progress, quiet
from unsc.request import Positions, Request, make_request
from unsc.result import Forgotten
from unsc.run import Samples, Task, carry_out, unlearn
from unsc.steps.budgeted import forget_gradients
from unsc.steps.curvature import RetainedCurvature, assemble, sensitivities
from unsc.steps.subspace import NullSpace, class_bases
from unsc.targets import pseudo_labels
from unsc.watch import Watch

__all__ = ["forget", "unlearn"]

_BATCH = 64


def forget(
    model: nn.Module,
    dataset: Dataset,
    *,
    classes: Iterable[int] | None = None,
    indices: Iterable[int] | None = None,
    labels: Iterable[int] | None = None,
    progress: Progress = quiet,
    **options: Any,
) -> Forgotten:
    """A new model that has forgotten whole `classes`, or the records at `indices` of its training set.

    `dataset` is a map-style training set that gives `(x, y)` or dicts with a label key. `labels`, one for each
    sample, spare reading the whole data set to find them. `options` are the fields of `Options`. The model that
    is passed in, and its mode, are left as they are.
    """
    began = time.perf_counter()
    settings = Options.from_keywords(options)
    check_map_style(dataset)
    original = working_copy(model)
    every = _labels(dataset, labels, settings, progress)
    probe = read(dataset, range(min(4, len(every))), label_key=settings.label_key)
    request = make_request(count_classes(original, probe), classes=classes, indices=indices)
    parts = request.split(every)
    settings = settings.resolved(len(parts.forget))
    layers, frozen = editable_layers(original, probe, parameters=settings.parameters)
    data = _Data.draw(dataset, every, request, parts, settings)
    watch = Watch(original, data.run.held_out, request.kept)
    task = Task(model, original, layers, frozen, data.run, request, settings, watch)
    prepare = _null_spaces if settings.step == "paper" else _metric
    return carry_out(task, prepare(task, data.fitted, progress), began=began, progress=progress)


def _labels(dataset: Dataset, given: Iterable[int] | None, settings: Options, progress: Progress) -> Tensor:
    if given is None:
        return read_labels(dataset, label_key=settings.label_key, progress=progress)
    labels = torch.as_tensor(given if isinstance(given, Tensor) else list(given))
    size = len(dataset)  # type: ignore[arg-type]
    if labels.shape != (size,) or labels.is_floating_point():
        raise InvalidData(f"labels have shape {tuple(labels.shape)}; give one whole number for each of {size} samples")
    return labels.long()


@dataclass(frozen=True)
class _Data:
    """All samples that a request needs, read once."""

    run: Samples
    fitted: dict[int, list[Batch]]
    """Retained samples for moments, in batches of one class."""

    @classmethod
    def draw(cls, dataset: Dataset, labels: Tensor, request: Request, parts: Positions, settings: Options) -> _Data:
        generator = torch.Generator().manual_seed(settings.seed)
        fitted, watched = {}, []
        for k in labels[parts.retain].unique().tolist():
            own = parts.retain[labels[parts.retain] == k]
            own = own[torch.randperm(len(own), generator=generator)]
            held = min(64, max(1, len(own) // 5), max(4, settings.samples_per_class // 4))
            watched.append(own[:held])
            chosen = own[held : held + settings.samples_per_class]
            fitted[k] = list(read_batches(dataset, chosen, size=_BATCH, label_key=settings.label_key))
            strange = [x for batch in fitted[k] for x in batch.labels.tolist() if x != k]
            if strange:
                raise InvalidData(
                    f"labels says {k} where the data set gives {strange[0]}; leave labels out, or mend it"
                )
        held_out = read_batches(
            dataset, torch.cat(watched), size=_BATCH, label_key=settings.label_key, seed=settings.seed
        )
        to_forget = list(read_batches(dataset, parts.forget, size=_BATCH, label_key=settings.label_key))
        share = settings.held_out if request.kind == "classes" else 0.0
        learned, watch = split_watched(to_forget, share, most=256, seed=settings.seed)
        return cls(Samples(learned, watch, list(held_out)), fitted)


def _null_spaces(task: Task, fitted: dict[int, list[Batch]], progress: Progress) -> NullSpace | dict[int, NullSpace]:
    """The null space of the classes that stay, or, for records, that of all other classes for each of their labels."""
    settings = task.settings
    by_class = {k: _moments(task, of_class, progress) for k, of_class in fitted.items()}
    samples = {k: sum(map(len, of_class)) for k, of_class in fitted.items()}
    bases = class_bases(Moments(task.layers, {}, by_class, samples, task.request.num_classes), energy=settings.energy)
    if task.request.kind == "classes":
        return bases.null_space(by_class, merge_energy=settings.merge_energy)
    own = task.samples.forgotten.labels.unique().tolist()
    return {k: bases.null_space(set(by_class) - {k}, merge_energy=settings.merge_energy) for k in own}


def _metric(task: Task, fitted: dict[int, list[Batch]], progress: Progress) -> RetainedCurvature:
    """What weight changes cost all data that stays, the remaining samples of records' classes included."""
    model, layers = task.original, task.layers
    everything = [batch for of_class in fitted.values() for batch in of_class]
    moments = _moments(task, everything, progress)
    held_out = _moments(task, task.samples.held_out, quiet)
    samples = sum(map(len, everything)), sum(map(len, task.samples.held_out))
    generator = torch.Generator().manual_seed(task.settings.seed)
    pool = join(everything)
    drawn = torch.randperm(len(pool), generator=generator)[:512]
    small = (pool[part] for part in drawn.split(16))
    b = sensitivities(model, layers, small, moments, samples[0], task.watch, generator=generator)
    forgotten = task.samples.forgotten
    some = forgotten[torch.arange(min(256, len(forgotten)))].for_model(model)
    with torch.no_grad():
        logits = logits_of(model, some)
    removed = task.request.removed(some.labels)
    targets = pseudo_labels(logits, removed, targets=task.settings.targets or "soft")
    _, gradients = forget_gradients(model, layers, some, targets)
    return assemble(layers, moments, held_out, samples, b, gradients)


def _moments(task: Task, data: list[Batch], progress: Progress) -> dict[str, Moment]:
    moments = {x.name: Moment(x.groups, x.columns) for x in task.layers}
    with progress("moments", len(data)) as advance:
        for batch in data:
            add_rows(task.original, task.layers, batch, moments, chunk_bytes=task.settings.chunk_bytes)
            advance()
    return moments
