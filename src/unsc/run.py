"""Unlearn with a null space or a retained metric that is already at hand."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn

from unsc.batches import Batch, as_batch
from unsc.errors import InvalidRequest, listing
from unsc.layers import Layer, parameters_of
from unsc.loop import Outcome, Schedule, run, split_watched, still_known
from unsc.models import count_classes, editable_layers, working_copy
from unsc.options import Options
from unsc.progress import Progress, quiet
from unsc.request import Request
from unsc.result import Forgotten, promise
from unsc.steps.budgeted import BudgetedStep
from unsc.steps.curvature import RetainedCurvature
from unsc.steps.paper import ConfinedStep
from unsc.steps.subspace import NullSpace
from unsc.watch import Watch, drift

Guide: TypeAlias = NullSpace | Mapping[int, NullSpace] | RetainedCurvature
"""What steps are confined to: a null space, one for each label of records, or the metric of the budgeted step."""


_NOTES = {
    "forgotten": "Forgotten: the stopping rule was met.",
    "passes": "The cap on passes was reached; the state that had forgotten most was kept.",
    "kl": "Retained predictions moved beyond max_kl; the state before that which had forgotten most was restored.",
    "nan": "The model's outputs became NaN or Inf; the state before that which had forgotten most was restored.",
}


@dataclass(frozen=True)
class Samples:
    """The samples that a run itself looks at."""

    forgotten: Batch
    watched: Batch
    """Forgotten samples that tell when to stop: held-out ones for classes, all of them for records."""
    held_out: list[Batch]
    """Retained samples to watch."""


@dataclass(frozen=True)
class Task:
    """A request with all that is needed to carry it out, but for the guide."""

    model: nn.Module
    """The user's own."""
    original: nn.Module
    """Its working copy."""
    layers: tuple[Layer, ...]
    frozen: dict[str, str]
    samples: Samples
    request: Request
    settings: Options
    watch: Watch


def unlearn(
    model: nn.Module,
    forgotten: Iterable[Any],
    guide: Guide,
    *,
    retained: Iterable[Any],
    forget: Iterable[int] | None = None,
    progress: Progress = quiet,
    **options: Any,
) -> Forgotten:
    """A new model that has forgotten the samples of the loader `forgotten`, guided by what was prepared before.

    `forget` are the classes to forget; without it the samples are records, which each lose their own class.
    `retained` is a loader of retained samples that `guide` was not made from: they are watched, and measured.
    """
    began = time.perf_counter()
    made = ("step", "energy", "merge_energy", "samples_per_class", "chunk_bytes")
    Options.from_keywords({k: v for k, v in options.items() if k in made}, without=made)
    settings = Options.from_keywords(
        options | {"step": "budgeted" if isinstance(guide, RetainedCurvature) else "paper"}
    )
    held_out = [as_batch(b, label_key=settings.label_key) for b in retained]
    to_forget = [as_batch(b, label_key=settings.label_key) for b in forgotten]
    if not held_out or not to_forget:
        empty = "forgotten" if held_out else "retained"
        raise InvalidRequest(f"the loader {empty} gave no sample; it needs at least one")
    settings = settings.resolved(sum(map(len, to_forget)))
    original = working_copy(model)
    count = count_classes(original, held_out[0])
    request = Request.for_records(None, count) if forget is None else Request.for_classes(forget, count)
    layers, frozen = editable_layers(original, held_out[0], parameters=settings.parameters)
    known = guide.layers if isinstance(guide, RetainedCurvature) else _spaces(guide)[0].bases
    strange = [layer.name for layer in layers if layer.name not in known]
    if strange:
        raise InvalidRequest(f"the guide does not know the layers {listing(strange)}; make it from this model")
    if request.kind == "classes":
        _check_parts(request.classes, to_forget, held_out, guide)
    if isinstance(guide, Mapping):
        lost = sorted({k for b in to_forget for k in b.labels.tolist()} - set(guide))
        if lost:
            raise InvalidRequest(
                f"no null space is given for records of class {listing(lost)}; give one for each label"
            )
    share = settings.held_out if request.kind == "classes" else 0.0
    learned, watched = split_watched(to_forget, share, most=256, seed=settings.seed)
    watch = Watch(original, held_out, request.kept)
    samples = Samples(learned, watched, held_out)
    task = Task(model, original, layers, frozen, samples, request, settings, watch)
    return carry_out(task, guide, began=began, progress=progress)


def _check_parts(classes: tuple[int, ...], forgotten: list[Batch], retained: list[Batch], guide: Guide) -> None:
    """Loaders and guide must agree on which classes go and which stay."""
    go, stay = ({k for batch in part for k in batch.labels.tolist()} for part in (forgotten, retained))
    if go != set(classes):
        raise InvalidRequest(
            f"forget={list(classes)}, but the loader forgotten holds the classes {listing(sorted(go))}; "
            "it must hold samples of each class to forget, and of no other"
        )
    if stay & set(classes):
        both = listing(sorted(stay & set(classes)))
        raise InvalidRequest(
            f"the loader retained holds samples of class {both}, which is to be forgotten; leave them out"
        )
    if isinstance(guide, NullSpace) and set(guide.retain) & set(classes):
        both = listing(sorted(set(guide.retain) & set(classes)))
        raise InvalidRequest(f"the null space retains class {both}, which is to be forgotten; make it without")


def carry_out(task: Task, guide: Guide, *, began: float, progress: Progress) -> Forgotten:
    """Run the loop on a copy of the original and measure the result."""
    settings, request = task.settings, task.request
    working = copy.deepcopy(task.original)
    step: BudgetedStep | ConfinedStep
    if isinstance(guide, RetainedCurvature):
        step = BudgetedStep(working, task.layers, guide, task.watch, budget=settings.budget)
    else:
        for space in _spaces(guide):
            space.check_not_empty()
        step = ConfinedStep(working, task.layers, guide, settings.make_optimizer())
    outcome = run(
        working,
        task.samples.forgotten,
        task.samples.watched,
        step,
        task.watch,
        request=request,
        targets=settings.targets or "soft",
        schedule=_schedule(settings, request),
        progress=progress,
    )
    result = _edited(task.model, working, task.layers)
    metrics = _metrics(task, working_copy(result), outcome, step)
    metrics["seconds"] = time.perf_counter() - began
    return Forgotten(result, metrics, task.frozen, settings, request, guide)


def _spaces(guide: NullSpace | Mapping[int, NullSpace]) -> list[NullSpace]:
    return [guide] if isinstance(guide, NullSpace) else list(guide.values())


def _schedule(settings: Options, request: Request) -> Schedule:
    # A record is done once it leaves its class; a class once its held-out samples hold almost no mass there.
    mass = settings.stop_mass if request.kind == "classes" else 1.0
    return Schedule(settings.batch_size, settings.max_passes, mass, settings.max_kl, settings.seed)  # type: ignore[arg-type]


@torch.no_grad()
def _edited(model: nn.Module, working: nn.Module, layers: Iterable[Layer]) -> nn.Module:
    """A copy of the user's model, in its own precision and mode, with the edited parameters of `working`."""
    result = copy.deepcopy(model)
    source = parameters_of(working, layers)
    for name, target in parameters_of(result, layers).items():
        target.copy_(source[name])
    return result


def _metrics(task: Task, final: nn.Module, outcome: Outcome, step: ConfinedStep | BudgetedStep) -> dict[str, Any]:
    """What is known of the result, measured on the final weights; accuracy in percent, KL in nats."""
    request, watch, layers = task.request, task.watch, task.layers
    moved = drift(task.original, final, layers, watch.batches)
    predicted, taken_back = 0.0, 0  # the paper's Theorem 1 predicts no change at all
    if isinstance(step, BudgetedStep):
        before, after = dict(task.original.named_parameters()), dict(final.named_parameters())
        with torch.no_grad():
            predicted = sum(step.metric.layers[x.name].kl(x.matrix(after) - x.matrix(before)) for x in layers)
        taken_back = step.taken_back
    watched = task.samples.watched.for_model(final)
    removed = request.removed(watched.labels)
    forget_acc, forget_mass = still_known(final, watched, removed)
    return {
        "request": request.kind,
        "promise": promise(request, task.settings.step),
        "stopped": outcome.stopped,
        "note": f"{_NOTES[outcome.stopped]} {forget_acc:.1f} % of the watched samples are still classified as before.",
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
