"""What a user calls: `forget`, and the stages that it is made of for those who want them apart."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils.data import Subset

from unsc import peers
from unsc.batches import Batch, join
from unsc.datasets import Data, as_source
from unsc.errors import HeadOnlyWarning, InvalidRequest, NotForgotten, NotForgottenWarning, listing
from unsc.forms import Collate
from unsc.grad_mode import with_gradients
from unsc.history import Past, asked_in, check_numbering
from unsc.layout import channels_last
from unsc.loaders import batches_in, check_parts, check_samples, request_for, staying
from unsc.logits import OfOutput
from unsc.models import count_classes, digest_of, editable_layers, working_copy
from unsc.names import numbered
from unsc.opening import Asked, opened
from unsc.options import PREPARING, Options
from unsc.progress import Progress, as_progress, quiet
from unsc.reference import Reference, default_targets, look_around
from unsc.request import Request
from unsc.result import Forgotten
from unsc.run import carry_out, run, split_for
from unsc.start import Start
from unsc.steps import Guide, rule_for
from unsc.steps.budgeted import BudgetedRule
from unsc.steps.curvature import RetainedCurvature
from unsc.steps.subspace import NullSpace, NullSpaces
from unsc.targets import TargetRule, Targets, find_targets
from unsc.task import RetainFit, Samples, Task, make_aims
from unsc.validation import Validation
from unsc.watch import Watch


@peers.joined()
@with_gradients()
def forget(
    model: nn.Module | Forgotten,
    dataset: Data,
    *,
    classes: Iterable[int | str] | int | str | None = None,
    indices: Iterable[int] | None = None,
    gone: Iterable[int | str] | int | str | None = None,
    labels: Iterable[int] | None = None,
    validation: Data | None = None,
    new_labels: Iterable[int | str] | None = None,
    logits: OfOutput | None = None,
    collate_fn: Collate | None = None,
    strict: bool = False,
    progress: Progress | bool = quiet,
    **options: Any,
) -> Forgotten:
    """A new model that has forgotten whole `classes`, or the records at `indices` of its training set.

    `dataset` is a training set that gives `(x, y)` or dicts with a label key, or a `DataLoader` of one. An iterable
    one, from which classes can be forgotten, is read once, and a part of it is kept (`sample_bytes`). Classes are
    numbers, or names that data set or model give them. `labels`, one for each sample, spare reading the whole data set
    to find them. `collate_fn` makes a batch of samples, as in `DataLoader`. `logits` takes what the model returns and
    gives its logits, where it does not return them. `options` are the fields of `Options` and those of the step rule.
    `progress=True` shows a bar. The model that is passed in, and its mode, are left as they are.

    After an earlier request, pass its result in the place of the model, or name the classes that are `gone`: they are
    no targets, their outputs are held down, and their samples, if the data still has them, neither go nor stay.

    For records, `validation` is data that the network was not trained on: what it says of such samples is what it
    should say of the records. `new_labels`, one for each index, are the labels that mislabelled records should have.

    Under an initialised process group every rank calls this with the same arguments, the whole data set among them, and
    gets the same result; each does a part of the work.

    A result that is not what was asked for says so (`result.ok`, `result.metrics.promise`) and warns; with `strict`
    it is an error.
    """
    chosen = Options.from_keywords(options)
    shown = as_progress(progress)
    start = Start.of(model, gone, data=[dataset], label_key=chosen.label_key, logits=logits, progress=shown)
    words = {"classes": classes, "indices": indices, "new_labels": new_labels}
    asked = Asked(start.model, start.original, words, start.gone)
    with opened(dataset, asked, chosen, labels=labels, collate_fn=collate_fn, progress=shown) as training:
        source, every = training.source, training.labels
        check_numbering(every, training.request.num_classes, start.history)
        request = _without_deleted(training.request, start.history, every)
        positions = request.split(every, min_retained=chosen.min_retained)
        unseen = None
        if validation is not None:
            unseen = as_source(validation, start.model, label_key=chosen.label_key, collate_fn=collate_fn)
        request, reference = look_around(start.original, source, request, unseen, chosen, labels=every, progress=shown)
        if reference.copies.included:
            positions = request.split(every, min_retained=chosen.min_retained)
        forgotten, retained = (Subset(source, part.tolist()) for part in positions)
        result = run(
            start,
            request,
            forgotten,
            retained,
            chosen,
            forget_labels=every[positions.forget],
            retain_labels=every[positions.retain],
            reference=reference,
        )
    return _told(result, strict)


@peers.joined()
@with_gradients()
def unlearn(
    model: nn.Module | Forgotten,
    forgotten: Iterable[Any],
    guide: Guide | Mapping[int, NullSpace],
    *,
    retained: Iterable[Any],
    forget: Iterable[int | str] | int | str | None = None,
    gone: Iterable[int | str] | int | str | None = None,
    validation: Iterable[Any] | None = None,
    logits: OfOutput | None = None,
    strict: bool = False,
    progress: Progress | bool = quiet,
    **options: Any,
) -> Forgotten:
    """A new model that has forgotten the samples of the loader `forgotten`, under a guide that is at hand.

    The guide is a null space (for records a dict with one for each label) or a retained curvature. `forget` are the
    classes to forget; without it the samples are records. `retained` is a loader of retained samples that the guide was
    not made from: on them retained predictions are checked, and measured. `validation` is one of samples that the
    network was not trained on, for records. `gone` and a former result in the model's place are as in `forget`.
    `logits` takes what the model returns and gives its logits, where it does not return them.
    """
    known = _as_one(guide)
    chosen = _options_under(known, options)
    about: dict[str, Any] = {"data": [forgotten, retained], "label_key": chosen.label_key}
    start = Start.of(model, gone, **about, logits=logits, progress=as_progress(progress))
    named = None if forget is None else numbered(forget, model=start.model, **about)
    check = staying(batches_in(retained, "retained", start.model, chosen.label_key), start.gone)
    whole = join(batches_in(forgotten, "forgotten", start.model, chosen.label_key))
    count = count_classes(start.original, check[0])
    check_samples(start.original, {"forgotten": [whole], "retained": check}, count)
    request = request_for(named, count, start.gone)
    peers.agree({"the model": digest_of(start.model), "what is to be forgotten": request, "the options": options})
    chosen.check_used(request.kind)
    if request.kind == "classes":
        check_parts(request.classes, whole, check)
    unseen: list[Batch] = []
    if validation is not None:
        unseen = staying(batches_in(validation, "validation", start.model, chosen.label_key), start.gone, "validation")
        check_samples(start.original, {"validation": unseen}, count)
    reference = Reference(Validation(tuple(unseen)))
    completed = chosen.completed(len(whole), targets=default_targets(chosen, request, reference))
    samples = Samples(*split_for(request, whole, completed), RetainFit.none(), check, unseen)
    result = carry_out(start, request, samples, completed, partial(_at_hand, known), reference=reference)
    return _told(result, strict)


@peers.joined()
@with_gradients()
def retained_curvature(
    model: nn.Module,
    retained: Iterable[Any],
    *,
    check: Iterable[Any],
    forgotten: Iterable[Any],
    forget: Iterable[int] | None = None,
    targets: Targets | TargetRule = "soft",
    label_key: str | None = None,
    logits: OfOutput | None = None,
    chunk_bytes: int = 256 << 20,
    seed: int = 0,
    progress: Progress | bool = quiet,
) -> RetainedCurvature:
    """The guide of the budgeted step: what weight changes cost the samples of the loader `retained`.

    `check` is a loader of other retained samples, on which the estimate is checked; `forgotten` gives the samples to
    forget (all classes `forget`, or records without it), since the damping is the one that serves them best.
    """
    original = working_copy(model, logits=logits)
    held_out = batches_in(check, "check", model, label_key)
    learned = join(batches_in(retained, "retained", model, label_key))
    gone = join(batches_in(forgotten, "forgotten", model, label_key))
    count = count_classes(original, held_out[0])
    check_samples(original, {"check": held_out, "retained": [learned], "forgotten": [gone]}, count)
    request = Request.for_records(None, count) if forget is None else Request.for_classes(forget, count)
    peers.agree({"the model": digest_of(model), "what is to be forgotten": request})
    channels_last(original, held_out[0])
    layers, _ = editable_layers(original, held_out[0])
    watch = Watch(original, held_out, request.kept)
    samples = Samples(gone, gone, RetainFit.from_batch(learned), held_out)
    aims = make_aims(original, request, samples, find_targets(targets, request.kind))
    task = Task(original, layers, request, samples, watch, aims, seed, chunk_bytes)
    return BudgetedRule().prepare(task, as_progress(progress))


def _told(result: Forgotten, strict: bool) -> Forgotten:
    """The result, and a word to the caller if it is not what was asked for."""
    if strict and not result.ok:
        raise NotForgotten(result.metrics.promise)
    if peers.rank() > 0:
        return result  # one rank says it
    if not result.ok:
        warnings.warn(result.metrics.promise, NotForgottenWarning, stacklevel=5)
    if result.metrics.edited.head_only and result.options.parameters is None:
        warnings.warn(_only_the_head(result), HeadOnlyWarning, stacklevel=5)
    return result


def _only_the_head(result: Forgotten) -> str:
    frozen = listing((f"{name} ({why})" for name, why in result.frozen.items()), limit=4)
    return (
        f"only the last layer was edited: {result.metrics.edited}. What the network computes before it is as it was, "
        f"so a probe finds there what it found before. Frozen are: {frozen or 'none'}. Unfreeze them "
        "(requires_grad), or register the kind of their modules (unsc.layers.register); if none are frozen, use "
        'step="budgeted". If the head alone is meant, name its parameters (parameters=...)'
    )


def _without_deleted(request: Request, history: Iterable[Past], labels: Tensor) -> Request:
    """Classes that were asked for before, and whose samples are deleted, are gone, however far that request came."""
    deleted = {*asked_in(history)} - {*labels.unique().tolist(), *request.classes}
    return replace(request, gone=tuple(sorted({*request.gone, *deleted})))


def _options_under(guide: Guide, options: dict[str, Any]) -> Options:
    """Options for a run whose guide is at hand; those that only matter while one is made are refused."""
    rule = rule_for(guide)
    for name in ("step", *rule.preparing, *PREPARING):
        if name in options:
            raise InvalidRequest(
                f"the option {name}={options[name]!r} has no effect here: the guide that is passed in decides it; "
                "leave it out"
            )
    return Options.from_keywords({"step": rule.name, **options})


def _as_one(guide: Guide | Mapping[int, NullSpace]) -> Guide:
    """A guide that may be a dict with a null space for each label."""
    if isinstance(guide, NullSpaces) or not isinstance(guide, Mapping):
        return guide
    if not guide or not all(isinstance(space, NullSpace) for space in guide.values()):
        held = listing(type(space).__name__ for space in guide.values())
        raise InvalidRequest(
            f"the guide is a dict of {held or 'nothing'}; give a NullSpace for each label of the records"
        )
    return NullSpaces(dict(guide))


def _at_hand(guide: Guide, task: Task) -> Guide:
    """The guide of a task for which one was passed in."""
    strange = [layer.name for layer in task.layers if layer.name not in guide.layer_names()]
    if strange:
        raise InvalidRequest(f"the guide does not know the layers {listing(strange)}; make it from this model")
    return guide
