"""One unlearning run: a task, its guide, the loop, and what is measured of the result."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from unsc.batches import Batch
from unsc.coverage import coverage, moved
from unsc.datasets import check_map_style, read_labels, size_of
from unsc.layers import Layer, parameters_of
from unsc.logits import OfOutput
from unsc.loop import Outcome, run_loop, still_known
from unsc.models import editable_layers, working_copy
from unsc.options import CompletedOptions, Options
from unsc.progress import Progress, quiet
from unsc.request import Request, check_enough
from unsc.result import NOTES, Forgotten, RunMetrics, promise
from unsc.steps import Guide, Step
from unsc.task import Samples, Task, draw_retained, read_all, split_forgotten
from unsc.verdict import judge, known, was_known
from unsc.watch import Watch, drift
from unsc.wrappers import unwrapped

MakeGuide: TypeAlias = Callable[[Task], Guide]
"""Prepares the guide of a task, or has it at hand."""


def run(
    model: nn.Module,
    request: Request,
    forget: Dataset[Any],
    retain: Dataset[Any],
    options: Options,
    *,
    retain_labels: Tensor | None = None,
    logits: OfOutput | None = None,
    began: float | None = None,
    progress: Progress = quiet,
) -> Forgotten:
    """Carry out a request whose forgotten and retained training samples are two map-style data sets.

    `retain_labels` (n,) spare reading the retained data set to find its labels. `logits` takes what the model returns
    and gives its logits, where it does not return them. Time counts from `began`, a reading of `time.perf_counter`, if
    part of the work was done before.
    """
    began = time.perf_counter() if began is None else began
    check_map_style(forget)
    check_map_style(retain)
    labels = retain_labels
    if labels is None:
        labels = read_labels(retain, label_key=options.label_key, progress=progress)
    check_enough(labels, options.min_retained)
    completed = options.completed(size_of(forget))
    fit, check = draw_retained(
        retain, labels, per_class=completed.samples_per_class, label_key=completed.label_key, seed=completed.seed
    )
    forgotten = read_all(forget, size_of(forget), label_key=completed.label_key)
    learned, held_out = split_for(request, forgotten, completed)
    samples = Samples(learned, held_out, fit, check)
    return carry_out(
        model,
        request,
        samples,
        completed,
        lambda task: completed.step.prepare(task, progress),
        logits=logits,
        began=began,
        progress=progress,
    )


def split_for(request: Request, forgotten: Batch, options: CompletedOptions) -> tuple[Batch, Batch]:
    """Forgotten samples to fit and to check; records are all both, since each of them matters."""
    share = options.forget_check_share if request.kind == "classes" else 0.0
    return split_forgotten(forgotten, share, seed=options.seed)


def carry_out(
    model: nn.Module,
    request: Request,
    samples: Samples,
    options: CompletedOptions,
    make_guide: MakeGuide,
    *,
    logits: OfOutput | None = None,
    began: float,
    progress: Progress,
) -> Forgotten:
    """Run the loop on a copy of the user's `model`, under a guide, and measure the result."""
    original = working_copy(model, logits=logits)
    layers, frozen = editable_layers(original, samples.retain_check[0], parameters=options.parameters)
    watch = Watch(original, samples.retain_check, request.kept)
    task = Task(original, layers, request, samples, watch, options.targets, options.seed, options.chunk_bytes)
    guide = make_guide(task)
    guide.check(request, samples.forget_fit.labels)
    working = copy.deepcopy(original)
    step = options.step.start(working, task, guide)
    outcome = run_loop(working, task, step, options.schedule(request), progress=progress)
    result = _edited(model, working, layers)
    metrics = _measure(task, working_copy(result, logits=logits), outcome, step, options.step.name, began)
    return Forgotten(result, metrics, frozen, options, request, guide)


@torch.no_grad()
def _edited(model: nn.Module, working: nn.Module, layers: Iterable[Layer]) -> nn.Module:
    """A copy of the user's model, in its own wrappers, precision and mode, with the edited parameters of `working`."""
    inner, rewrap = unwrapped(model)
    result = copy.deepcopy(inner)
    source = parameters_of(working, layers)
    for name, target in parameters_of(result, layers).items():
        target.copy_(source[name])
    return rewrap(result)


def _measure(task: Task, final: nn.Module, outcome: Outcome, step: Step, rule: str, began: float) -> RunMetrics:
    """What is known of the result, on the final weights."""
    request, samples, watch = task.request, task.samples, task.watch
    drifts = drift(task.original, final, task.layers, watch.batches)
    held_out = samples.forget_check.for_model(final)
    removed = request.removed(held_out.labels)
    before, after = (known(model, held_out, removed) for model in (task.original, final))
    knew = was_known(task.original, request, samples.forget_check, samples.retain_check)
    status = judge(request, knew, after)
    return RunMetrics(
        request=request.kind,
        status=status,
        promise=promise(request, rule, status, outcome.stopped, before, after),
        stopped=outcome.stopped,
        note=f"{NOTES[outcome.stopped]} {after.percent:.1f} % of the samples to check are still classified as before.",
        passes=outcome.passes,
        steps=outcome.steps,
        steps_taken_back=step.taken_back,
        forget_acc=after.percent,
        forget_acc_before=before.percent,
        forget_mass=still_known(final, held_out, removed)[1],
        predicted_kl=step.predicted_kl(task.original, final),
        retained_kl=watch.kl(final),
        temperature=watch.temperature,
        drift=drifts,
        drift_max=max(drifts.values()),
        edited=coverage(task.original, moved(task.original, final, task.layers), watch.batches[0]),
        history=outcome.history,
        seconds=time.perf_counter() - began,
    )
