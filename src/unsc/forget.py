"""One call from a trained model and its training set to a model that has forgotten."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from unsc.budget import forget_gradients
from unsc.layers import Layer
from unsc.loop import split_watched
from unsc.metric import RetainedMetric, assemble, sensitivities
from unsc.models import editable_layers, working_copy
from unsc.moments import Moment, Moments, add_rows
from unsc.options import Options
from unsc.progress import Progress, quiet
from unsc.pseudo_labels import pseudo_labels, removed_classes
from unsc.request import Request, make_request
from unsc.result import Forgotten
from unsc.samples import Batch, batches, check_logits, join, logits_of, read, read_labels
from unsc.subspace import NullSpace, class_bases
from unsc.unlearn import Samples, carry_out
from unsc.watch import Watch

_BATCH = 64


def forget(
    model: nn.Module,
    dataset: Dataset,
    *,
    classes: Iterable[int] | None = None,
    indices: Iterable[int] | None = None,
    progress: Progress = quiet,
    **options: Any,
) -> Forgotten:
    """A new model that has forgotten whole `classes`, or the records at `indices` of its training set.

    `dataset` is a map-style training set that gives `(x, y)` or dicts with a label key. `options` are the
    fields of `Options`. The model that is passed in, and its mode, are left as they are.
    """
    began = time.perf_counter()
    settings = Options.from_keywords(options)
    original = working_copy(model)
    labels = read_labels(dataset, label_key=settings.label_key, progress=progress)
    probe = read(dataset, range(min(4, len(labels))), label_key=settings.label_key)
    with torch.no_grad():
        logits = logits_of(original, probe.for_model(original))
    check_logits(logits)
    request = make_request(labels, logits.shape[1], classes=classes, indices=indices)
    settings = settings.resolved(len(request.forget))
    layers, frozen = editable_layers(original, probe, parameters=settings.parameters)
    data = _Data.draw(dataset, labels, request, settings)
    watch = Watch(original, data.run.held_out, request.kept.to(logits.device))
    if settings.step == "paper":
        guide: NullSpace | dict[int, NullSpace] | RetainedMetric = _null_spaces(
            original, layers, data, request, settings, progress
        )
    else:
        guide = _metric(original, layers, data, request, settings, watch, progress)
    result = carry_out(model, original, layers, guide, data.run, request, settings, progress, watch)
    result.metrics["seconds"] = time.perf_counter() - began
    result.frozen.update(frozen)
    return result


@dataclass(frozen=True)
class _Data:
    """All samples that a request needs, read once."""

    run: Samples
    fitted: dict[int, list[Batch]]
    """Retained samples for moments, in batches of one class."""

    @classmethod
    def draw(cls, dataset: Dataset, labels: Tensor, request: Request, settings: Options) -> _Data:
        generator = torch.Generator().manual_seed(settings.seed)
        fitted, watched = {}, []
        for k in labels[request.retain].unique().tolist():
            own = request.retain[labels[request.retain] == k]
            own = own[torch.randperm(len(own), generator=generator)]
            held = min(64, max(1, len(own) // 5), max(4, settings.samples_per_class // 4))
            watched.append(own[:held])
            chosen = own[held : held + settings.samples_per_class]
            fitted[k] = list(batches(dataset, chosen, size=_BATCH, label_key=settings.label_key))
        held_out = batches(dataset, torch.cat(watched), size=_BATCH, label_key=settings.label_key, seed=settings.seed)
        to_forget = list(batches(dataset, request.forget, size=_BATCH, label_key=settings.label_key))
        share = settings.held_out if request.classes is not None else 0.0
        learned, watch = split_watched(to_forget, share, most=256, seed=settings.seed)
        return cls(Samples(learned, watch, list(held_out)), fitted)


def _null_spaces(
    model: nn.Module, layers: tuple[Layer, ...], data: _Data, request: Request, settings: Options, progress: Progress
) -> NullSpace | dict[int, NullSpace]:
    """The null space of the classes that stay, or, for records, that of all other classes for each of their labels."""
    by_class = {k: _moments(model, layers, of_class, settings, progress) for k, of_class in data.fitted.items()}
    samples = {k: sum(map(len, of_class)) for k, of_class in data.fitted.items()}
    bases = class_bases(Moments(layers, {}, by_class, samples, request.num_classes), energy=settings.energy)
    if request.classes is not None:
        return bases.null_space(by_class, merge_energy=settings.merge_energy)
    own = data.run.forgotten.labels.unique().tolist()
    return {k: bases.null_space(set(by_class) - {k}, merge_energy=settings.merge_energy) for k in own}


def _metric(
    model: nn.Module,
    layers: tuple[Layer, ...],
    data: _Data,
    request: Request,
    settings: Options,
    watch: Watch,
    progress: Progress,
) -> RetainedMetric:
    """What weight changes cost all data that stays, the remaining samples of records' classes included."""
    fitted = [batch for of_class in data.fitted.values() for batch in of_class]
    moments = _moments(model, layers, fitted, settings, progress)
    held_out = _moments(model, layers, data.run.held_out, settings, quiet)
    samples = sum(map(len, fitted)), sum(map(len, data.run.held_out))
    generator = torch.Generator().manual_seed(settings.seed)
    pool = join(fitted)
    drawn = torch.randperm(len(pool), generator=generator)[:512]
    small = (pool[part] for part in drawn.split(16))
    b = sensitivities(model, layers, small, moments, samples[0], watch, generator=generator)
    forgotten = data.run.forgotten
    some = forgotten[torch.arange(min(256, len(forgotten)))].for_model(model)
    with torch.no_grad():
        logits = logits_of(model, some)
    removed = removed_classes(some.labels, request.num_classes, request.classes)
    targets = pseudo_labels(logits, removed, targets=settings.targets or "soft")
    _, gradients = forget_gradients(model, layers, some, targets)
    return assemble(layers, moments, held_out, samples, b, gradients)


def _moments(
    model: nn.Module, layers: tuple[Layer, ...], data: list[Batch], settings: Options, progress: Progress
) -> dict[str, Moment]:
    moments = {x.name: Moment(x.groups, x.columns) for x in layers}
    with progress("moments", len(data)) as advance:
        for batch in data:
            add_rows(model, layers, batch, moments, chunk_bytes=settings.chunk_bytes)
            advance()
    return moments
