"""One call from a trained model and its training set to a model that has forgotten."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from unsc.budget import BudgetedStep, forget_gradients
from unsc.confine import ConfinedStep
from unsc.layers import Layer
from unsc.metric import retained_metric, sensitivities
from unsc.models import editable_layers, working_copy
from unsc.moments import Moment, Moments, add_rows
from unsc.options import Options
from unsc.progress import Progress, quiet
from unsc.pseudo_labels import pseudo_labels, removed_classes
from unsc.request import Request, make_request
from unsc.result import Forgotten
from unsc.samples import Batch, batches, check_logits, join, logits_of, read, read_labels
from unsc.subspace import NullSpace, class_bases
from unsc.unlearn import Outcome, Schedule, run, split_watched, still_known
from unsc.watch import Watch, drift

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
    watch = Watch(original, data.held_out, request.kept.to(logits.device))
    working = copy.deepcopy(original)
    step = (_paper_step if settings.step == "paper" else _budgeted_step)(
        working, layers, data, request, settings, watch, progress
    )
    outcome = run(
        working,
        data.forgotten,
        data.watched,
        step,
        watch,
        forget=request.classes,
        targets=settings.targets,  # type: ignore[arg-type]
        schedule=_schedule(settings, request),
        progress=progress,
    )
    result = _edited(model, working, layers)
    metrics = _metrics(original, working_copy(result), layers, data, request, watch, outcome, step)
    metrics["seconds"] = time.perf_counter() - began
    return Forgotten(result, metrics, frozen, settings, request)


@dataclass(frozen=True)
class _Data:
    """The samples of a run, read once."""

    forgotten: Batch
    watched: Batch
    """Forgotten samples that tell when to stop: held-out ones for classes, all of them for records."""
    fitted: dict[int, list[Batch]]
    """Retained samples for moments, in batches of one class."""
    held_out: list[Batch]
    """Retained samples to watch, of all classes mixed."""

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
        return cls(learned, watch, fitted, list(held_out))


def _paper_step(
    model: nn.Module,
    layers: tuple[Layer, ...],
    data: _Data,
    request: Request,
    settings: Options,
    watch: Watch,
    progress: Progress,
) -> ConfinedStep:
    by_class = {k: _moments(model, layers, of_class, settings, progress) for k, of_class in data.fitted.items()}
    samples = {k: sum(map(len, of_class)) for k, of_class in data.fitted.items()}
    moments = Moments(layers, {}, by_class, samples, request.num_classes)
    bases = class_bases(moments, energy=settings.energy)
    spaces: NullSpace | Mapping[int, NullSpace]
    if request.classes is not None:
        spaces = bases.null_space(by_class, merge_energy=settings.merge_energy)
        spaces.check_not_empty()
    else:  # each record is confined to the null space of the other classes
        own = data.forgotten.labels.unique().tolist()
        spaces = {k: bases.null_space(set(by_class) - {k}, merge_energy=settings.merge_energy) for k in own}
        for space in spaces.values():
            space.check_not_empty()
    return ConfinedStep(model, layers, spaces, settings.make_optimizer())


def _budgeted_step(
    model: nn.Module,
    layers: tuple[Layer, ...],
    data: _Data,
    request: Request,
    settings: Options,
    watch: Watch,
    progress: Progress,
) -> BudgetedStep:
    fitted = [batch for of_class in data.fitted.values() for batch in of_class]
    moments = _moments(model, layers, fitted, settings, progress)
    held_out = _moments(model, layers, data.held_out, settings, quiet)
    samples = sum(map(len, fitted)), sum(map(len, data.held_out))
    generator = torch.Generator().manual_seed(settings.seed)
    pool = join(fitted)
    drawn = torch.randperm(len(pool), generator=generator)[:512]
    small = (pool[part] for part in drawn.split(16))
    b = sensitivities(model, layers, small, moments, samples[0], watch, generator=generator)
    some = data.forgotten[torch.arange(min(256, len(data.forgotten)))].for_model(model)
    with torch.no_grad():
        logits = logits_of(model, some)
    removed = removed_classes(some.labels, request.num_classes, request.classes)
    targets = pseudo_labels(logits, removed, targets=settings.targets)  # type: ignore[arg-type]
    _, gradients = forget_gradients(model, layers, some, targets)
    metric = retained_metric(layers, moments, held_out, samples, b, gradients)
    return BudgetedStep(model, layers, metric, watch, budget=settings.budget)


def _moments(
    model: nn.Module, layers: tuple[Layer, ...], data: list[Batch], settings: Options, progress: Progress
) -> dict[str, Moment]:
    moments = {x.name: Moment(x.groups, x.columns) for x in layers}
    with progress("moments", len(data)) as advance:
        for batch in data:
            add_rows(model, layers, batch, moments, chunk_bytes=settings.chunk_bytes)
            advance()
    return moments


def _schedule(settings: Options, request: Request) -> Schedule:
    # A record is done once it leaves its class; a class once its held-out samples hold almost no mass there.
    mass = settings.stop_mass if request.classes is not None else 1.0
    return Schedule(settings.batch_size, settings.max_passes, mass, settings.max_kl, settings.seed)  # type: ignore[arg-type]


@torch.no_grad()
def _edited(model: nn.Module, working: nn.Module, layers: Iterable[Layer]) -> nn.Module:
    """A copy of the user's model, in its own precision and mode, with the edited parameters of `working`."""
    result = copy.deepcopy(model)
    target, source = dict(result.named_parameters()), dict(working.named_parameters())
    for name in {name for layer in layers for name in layer.parameters}:
        target[name].copy_(source[name])
    return result


def _metrics(
    original: nn.Module,
    final: nn.Module,
    layers: tuple[Layer, ...],
    data: _Data,
    request: Request,
    watch: Watch,
    outcome: Outcome,
    step: ConfinedStep | BudgetedStep,
) -> dict[str, Any]:
    """What is known of the result, measured on the final weights; accuracy in percent, KL in nats."""
    moved = drift(original, final, layers, watch.batches)
    predicted, taken_back = 0.0, 0  # the paper's Theorem 1 predicts no change at all
    if isinstance(step, BudgetedStep):
        before, after = dict(original.named_parameters()), dict(final.named_parameters())
        with torch.no_grad():
            predicted = sum(step.metric.layers[x.name].kl(x.matrix(after) - x.matrix(before)) for x in layers)
        taken_back = step.taken_back
    watched = data.watched.for_model(final)
    removed = removed_classes(watched.labels, request.num_classes, request.classes)
    forget_acc, forget_mass = still_known(final, watched, removed)
    return {
        "request": request.kind,
        "promise": request.promise,
        "stopped": outcome.stopped,
        "passes": outcome.passes,
        "steps": outcome.steps,
        "steps_taken_back": taken_back,
        "forget_acc": forget_acc,
        "forget_mass": forget_mass,
        "predicted_kl": predicted,
        "retained_kl": watch.kl(final),
        "temperature": watch.temperature,
        "drift": moved,
        "drift_max": max(moved.values()),
        "history": outcome.history,
    }
