"""One unlearning run: a task, its guide, the loop, and what is measured of the result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from unsc.balance import Reached, balanced
from unsc.batches import HasSamples
from unsc.beside import with_others
from unsc.datasets import check_map_style, read_labels, size_of
from unsc.dropped import DroppedOutputs
from unsc.final import gone_mass, head_inputs_of_final, measured_drift, measured_kl, scores_reached
from unsc.ground import Ground, prepare, with_weights
from unsc.history import Past, first_margins, gone_by
from unsc.loop import Outcome, run_loop
from unsc.measures import measure_records, worth_it
from unsc.models import working_copy
from unsc.options import CompletedOptions, Options
from unsc.outputs import BeforeHead, settled
from unsc.progress import Progress, quiet
from unsc.promises import note_on_classes, note_on_records, promise, promise_on_records
from unsc.ranks import value_at
from unsc.reference import NO_REFERENCE, Reference, default_targets
from unsc.repair import repair
from unsc.request import Request, check_enough
from unsc.result import Forgotten, RunMetrics
from unsc.sharded import copied, is_sharded
from unsc.start import Start
from unsc.steps import Guide, Step
from unsc.steps.held import figures_of
from unsc.targets import Scores, margins, scores_of_all
from unsc.task import MOST_CHECKED_OF_CLASS, Samples, Task, draw_retained, read_forgotten, split_forgotten
from unsc.verdict import Status, judge, judge_records, was_known
from unsc.wrappers import unwrapped, without_wrappers

_SETTLED = 0.1
"""Share of `stop_mass` that settled outputs hold at most."""

_MARGINS = 128
"""Margins of unseen samples that are kept for later requests."""

MakeGuide: TypeAlias = Callable[[Task], Guide]
"""Prepares the guide of a task, or has it at hand."""


def run(
    start: Start,
    request: Request,
    forget: Dataset[Any],
    retain: Dataset[Any],
    options: Options,
    *,
    forget_labels: Tensor | None = None,
    retain_labels: Tensor | None = None,
    reference: Reference = NO_REFERENCE,
) -> Forgotten:
    """Carry out a request whose forgotten and retained training samples are two map-style data sets.

    `forget_labels` and `retain_labels` (n,) spare reading the data sets to find them; `reference` is what is known of
    records beyond themselves.
    """
    check_map_style(forget)
    check_map_style(retain)
    labels = retain_labels
    if labels is None:
        labels = read_labels(retain, label_key=options.label_key, progress=start.progress)
    check_enough(labels, options.min_retained)
    options.check_used(request.kind)
    completed = options.completed(size_of(forget), targets=default_targets(options, request, reference))
    fit, check = draw_retained(
        retain,
        labels,
        per_class=completed.samples_per_class,
        label_key=completed.label_key,
        seed=completed.seed,
        checked=_checked(request),
    )
    forgotten = read_forgotten(forget, forget_labels, label_key=completed.label_key, keep=completed.sample_bytes)
    learned, held_out = split_for(request, forgotten, completed)
    samples = Samples(learned, held_out, fit, check, reference.validation.batches)
    samples = with_others(samples, forget, retain, completed)
    return carry_out(start, request, samples, completed, prepared(completed, start.progress), reference=reference)


def prepared(options: CompletedOptions, progress: Progress = quiet) -> MakeGuide:
    """The step rule's own guide of a task."""
    return lambda task: options.step.prepare(task, progress)


def _checked(request: Request) -> int:
    """Retained samples of each class to check on: few records leave all classes as they are, or nearly."""
    return MOST_CHECKED_OF_CLASS // (2 if request.kind == "records" else 1)


def split_for(request: Request, forgotten: HasSamples, options: CompletedOptions) -> tuple[HasSamples, HasSamples]:
    """Forgotten samples to fit and to check; records are all both, since each of them matters."""
    share = options.forget_check_share if request.kind == "classes" else 0.0
    return split_forgotten(forgotten, share, seed=options.seed)


def carry_out(
    start: Start,
    request: Request,
    samples: Samples,
    options: CompletedOptions,
    make_guide: MakeGuide,
    *,
    reference: Reference = NO_REFERENCE,
) -> Forgotten:
    """Run the loop on a copy of the user's model, under a guide, and measure the result."""
    model, original = start.model, _working(start, options)
    first = first_margins(start.history)
    ground = prepare(original, request, samples, options, unseen_margins=first)
    task, head, samples = ground.task, ground.head, ground.task.samples
    guide = make_guide(task)
    guide.check(request, samples.forget_fit.labels)
    working = copied(task.original)
    step = options.step.start(working, task, guide)
    outcome = run_loop(working, task, step, options.schedule(), progress=start.progress)
    if options.step.settles:
        repair(task, working, head, outcome.reached)
    inner, rewrap = without_wrappers(model) if is_sharded(original) else unwrapped(model)
    result = with_weights(inner, working, task.layers)
    final = ground.final(result, start.logits)
    given = head_inputs_of_final(task, final, head)
    reached = scores_reached(task, final, given, working, outcome.said)
    said = Reached(reached, scores_of_all(final, samples.validation))
    said = balanced(task, result, final, head if options.step.settles else None, said)
    if request.kind == "records" and not worth_it(task, final, said.records, options.least_gain):
        outcome, result = replace(outcome, stopped="undone"), with_weights(inner, working, ())
        final, said = task.original, Reached(task.aims.scores, task.aims.unseen)
    metrics = _measure(ground, final, said, given, outcome, step, guide, options.step.name, reference, start.began)
    past = _past(request, samples, metrics.status, options, first or _spread_margins(task.aims.unseen))
    lost = tuple(sorted({*request.gone, *gone_by([past])}))
    dropped = None
    if head is not None and options.drop_outputs and set(request.classes) <= set(lost):
        kept = tuple(k for k in range(request.num_classes) if k not in lost)
        dropped = DroppedOutputs(head.path, kept, request.num_classes)
        result, past = dropped.drop(result), replace(past, kept=kept)
    elif head is not None and lost and samples.retain_check:
        before, most = given or BeforeHead.of(task, final, head.path), _SETTLED * options.stop_mass
        metrics = replace(metrics, settled_mass=settled(request, result, final, before, lost, most=most))
    return Forgotten(rewrap(result), metrics, ground.frozen, options, request, guide, (*start.history, past), dropped)


def _working(start: Start, options: CompletedOptions) -> nn.Module:
    """The working copy; with whole weights, if steps cannot move shards."""
    if is_sharded(start.original) and not options.step.in_shards:
        return working_copy(unwrapped(start.model).inner, logits=start.logits)
    return start.original


def _past(
    request: Request, samples: Samples, status: Status, options: CompletedOptions, unseen_margins: tuple[float, ...]
) -> Past:
    size = len(samples.forget_fit) - samples.beside
    return replace(Past.now(request, size, status, options.to_dict()), unseen_margins=unseen_margins)


def _spread_margins(unseen: Scores) -> tuple[float, ...]:
    """As many margins as tell their distribution, evenly spread over it; none if there are no such samples."""
    if not len(unseen):
        return ()
    places = (torch.arange(_MARGINS) + 0.5) / _MARGINS
    return tuple(round(x, 4) for x in value_at(places, margins(unseen).cpu()).tolist())


def _measure(
    ground: Ground,
    final: nn.Module,
    reached: Reached,
    given: BeforeHead | None,
    outcome: Outcome,
    step: Step,
    guide: Guide,
    step_name: str,
    reference: Reference,
    began: float,
) -> RunMetrics:
    """What is known of the result, on the final weights, which said what is `reached`."""
    task, request, rule, stopped = ground.task, ground.task.request, ground.task.aims.rule, outcome.stopped
    drifts, retained = measured_drift(task, final, step), len(task.watch.batches)
    before, after = task.look(task.aims.scores), task.look(reached.records)
    if request.kind == "records":
        records = measure_records(task, reached, reference.copies, overlapping=reference.validation.overlapping)
        status = judge_records(rule, before, after, reference.copies.copied())
        said = promise_on_records(rule, step_name, status, stopped, records, retained=retained)
        note = note_on_records(stopped, records)
    else:
        records, note = None, note_on_classes(stopped, after.known)
        status = judge(was_known(request, before.known, task.watch.original), after.known)
        said = promise(request, status, stopped, before.known, after.known, retained=retained)
    return RunMetrics(
        request=request.kind,
        status=status,
        promise=said,
        stopped=stopped,
        note=note,
        passes=outcome.passes,
        steps=outcome.steps,
        steps_taken_back=step.taken_back,
        forget_acc=after.known.percent,
        forget_acc_before=before.known.percent,
        forget_mass=after.mass,
        predicted_kl=step.predicted_kl(task.original, final),
        retained_kl=measured_kl(task, final, given, step),
        temperature=task.watch.temperature,
        drift=drifts,
        drift_max=max(drifts.values(), default=0.0),
        edited=ground.edited(final),
        history=outcome.history,
        seconds=time.perf_counter() - began,
        records=records,
        gone_mass=gone_mass(task, final),
        gone_mass_before=gone_mass(task, task.original),
        spent=list(step.spent),
        layers=figures_of(guide, step, drifts),
    )
