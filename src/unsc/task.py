"""All that is needed to carry out a request: the network, its layers, and four sets of samples.

Samples to *fit* are what something is estimated or learned from; samples to *check* are held out of that, and say how
well it went. Both exist for what is retained and for what is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset

from unsc.batches import Batch, HasSamples, pieces
from unsc.datasets import read, read_labels, size_of
from unsc.errors import InvalidData, InvalidRequest
from unsc.layers import Layer
from unsc.logits import shared_logits
from unsc.looks import Look
from unsc.on_demand import kept_or_read, picked, read_together
from unsc.request import Request
from unsc.said import Said
from unsc.targets import (
    NO_SCORES,
    Evidence,
    Goal,
    Scores,
    TargetRule,
    Views,
    fitting_labels,
    read_out,
    scores_of,
    scores_of_all,
    views_of,
)
from unsc.targets.when_needed import FitTargets
from unsc.watch import Watch

BATCH = 64
"""Samples in a forward pass that only looks."""
_MOST_CHECKED = 1024
"""Retained samples to check on, of all classes together, unless these are more: a mean over so many is known to three
hundredths of its spread, whatever the number of classes."""
MOST_CHECKED_OF_CLASS = 64
_PROBED = 4
"""Samples that show how a network takes them."""


@dataclass(frozen=True)
class RetainFit:
    """Retained samples to fit to, class by class, read when they are needed and not kept."""

    read: Callable[[Tensor], Batch]
    """Gives the samples at positions (n,)."""
    positions: dict[int, Tensor]
    """Where the samples of each class are, int64 (n,)."""

    @classmethod
    def from_batch(cls, batch: Batch) -> RetainFit:
        """Of samples that are at hand."""
        labels = batch.labels.cpu()
        return cls(batch.__getitem__, {k: (labels == k).nonzero().flatten() for k in labels.unique().tolist()})

    @classmethod
    def none(cls) -> RetainFit:
        """There are none: the guide is at hand already."""
        return cls(_nothing, {})

    def __len__(self) -> int:
        return sum(map(len, self.positions.values()))

    def of_class(self, label: int) -> Iterator[Batch]:
        """The samples of one class, in batches."""
        for chosen in self.positions[label].split(BATCH):
            batch = self.read(chosen)
            strange = batch.labels[batch.labels != label]
            if len(strange):
                raise InvalidData(
                    f"labels says {label} where the data set gives {int(strange[0])}; leave labels out, or correct it"
                )
            yield batch

    def all(self) -> Iterator[Batch]:
        """The samples of all classes, one class after another, in batches of one class."""
        return chain.from_iterable(map(self.of_class, self.positions))

    def number_of_batches(self) -> int:
        return sum(-(-len(own) // BATCH) for own in self.positions.values())

    def positions_drawn(self, count: int, size: int, generator: torch.Generator) -> Sequence[Tensor]:
        """Where at most `count` samples are, drawn at random, in batches of `size`."""
        if not self.positions:
            return ()
        everything = torch.cat(list(self.positions.values()))
        return everything[torch.randperm(len(everything), generator=generator)[:count]].split(size)

    def draw(self, count: int, size: int, generator: torch.Generator) -> Iterator[Batch]:
        """At most `count` samples at random, in batches of `size`."""
        return map(self.read, self.positions_drawn(count, size, generator))


@dataclass(frozen=True)
class Samples:
    """The samples that a run looks at."""

    forget_fit: HasSamples
    """What the network learns other labels for."""
    forget_check: HasSamples
    """What tells when to stop: held-out samples of forgotten classes, or the records themselves."""
    retain_fit: RetainFit
    """What the guide is made from; empty if the guide is at hand already."""
    retain_check: list[Batch]
    """What the guide was not made from: here retained predictions are watched. Empty if none is at hand."""
    validation: Sequence[Batch] = ()
    """What the network was not trained on, to see what it says of such samples; empty if there is none."""
    trained: Sequence[Batch] | None = None
    """Other samples that the network was trained on, to hold records against; None: those of `retain_check`."""
    beside: int = 0
    """How many of the last of `forget_fit` are no records, but retained samples that are learned under their labels."""

    @property
    def probe(self) -> Batch:
        """Some samples, to see how the network takes them."""
        some = self.retain_check[0] if self.retain_check else self.forget_fit
        return some[torch.arange(min(_PROBED, len(some)))]


@dataclass(frozen=True)
class Aims:
    """Where forgotten samples should get to, and when they are there."""

    fit: FitTargets
    """Of `Samples.forget_fit`."""
    check: Tensor
    """Those of `Samples.forget_check`."""
    goal: Goal
    rule: TargetRule
    scores: Scores
    """What the original network says of `Samples.forget_check`."""
    unseen: Scores
    """What it says of `Samples.validation`."""
    retained: Tensor | None = None
    """What it says of `Samples.retain_check`, (n, classes), if that was asked."""


@dataclass(frozen=True)
class Task:
    """A request with all that is needed to carry it out, but for the guide."""

    original: nn.Module
    """The network before the run, in evaluation mode; it does not change."""
    layers: tuple[Layer, ...]
    request: Request
    samples: Samples
    watch: Watch
    aims: Aims
    seed: int
    chunk_bytes: int
    """Memory for the rows of one layer at a time."""
    said: Said = field(default_factory=Said)
    """By the original, of retained samples to fit that something was made from."""

    def look(self, scores: Scores) -> Look:
        """What a network's scores on the samples to check come to."""
        return Look.of(scores.logits, self.request.removed(scores.labels), self.aims.check)


def make_aims(
    original: nn.Module,
    request: Request,
    samples: Samples,
    rule: TargetRule,
    *,
    unseen_margins: Sequence[float] = (),
    stop_mass: float = 0.01,
) -> Aims:
    """What a rule makes of the original's predictions; `unseen_margins` are by the first network of a sequence."""
    new_labels, first = torch.tensor(request.new_labels, dtype=torch.long), torch.tensor(unseen_margins)
    evidence, scores = Evidence(NO_SCORES, torch.empty(0), unseen_margins=first), None
    if samples.validation and rule.reads_layers and (samples.trained is None or samples.trained):
        records, trained, unseen = views = _views(original, samples)
        evidence = replace(evidence, trained=trained.scores, unseen=unseen.scores, readout=read_out(*views))
        scores = records.scores.to(next(original.parameters()).device)
    elif samples.validation:
        evidence = replace(evidence, unseen=scores_of_all(original, samples.validation))
    if rule.reads_labels and samples.retain_check:
        evidence = replace(evidence, label_scores=fitting_labels(*_with_labels(original, samples)))

    def targets(scores: Scores) -> Tensor:
        removed = request.removed(scores.labels)
        own = replace(evidence, forgotten=scores, removed=removed, new_labels=new_labels.to(removed.device))
        return without(rule.make(own), request.gone)

    def made(positions: Tensor) -> Tensor:
        logits = shared_logits(original, samples.forget_fit, positions)
        return targets(Scores(logits, samples.forget_fit.labels[positions].to(logits.device)))

    goal = rule.goal(request.kind, stop_mass)
    scores = scores_of(original, samples.forget_check) if scores is None else scores
    check = targets(scores)
    if samples.beside:
        stays = F.one_hot(samples.forget_fit.labels[-samples.beside :], check.shape[1]).to(check)
        fit = FitTargets.ready(torch.cat([check, stays]))
    elif samples.forget_check is samples.forget_fit:
        fit = FitTargets.ready(check)
    elif rule.each_alone:
        fit = FitTargets(len(samples.forget_fit), made)
    else:
        fit = FitTargets.ready(targets(scores_of(original, samples.forget_fit)))
    retained = evidence.trained.logits if samples.trained is None and len(evidence.trained) else None
    return Aims(fit, check, goal, rule, scores, evidence.unseen, retained)


def without(targets: Tensor, classes: Sequence[int]) -> Tensor:
    """Target distributions (n, classes) of which some classes are no part."""
    if not classes:
        return targets
    left = targets.index_fill(1, torch.tensor(classes, device=targets.device), 0.0)
    return left / left.sum(dim=1, keepdim=True).clamp(min=1e-30)


def _views(original: nn.Module, samples: Samples) -> tuple[Views, Views, Views]:
    """Of records, of other training samples, and of unseen ones. One record does not tell samples from positions."""
    unseen = views_of(original, samples.validation)
    trained = views_of(original, samples.retain_check if samples.trained is None else samples.trained)
    return views_of(original, list(pieces(samples.forget_fit)), like=unseen), trained, unseen


def _with_labels(original: nn.Module, samples: Samples) -> tuple[Views, Views]:
    """Of records, and of other training samples, whose labels are right."""
    some = samples.retain_fit.draw(_MOST_CHECKED, BATCH, torch.Generator().manual_seed(0))
    retained = views_of(original, [*samples.retain_check, *some])
    return views_of(original, list(pieces(samples.forget_check)), like=retained), retained


def draw_retained(
    dataset: Dataset[object],
    labels: Tensor,
    *,
    per_class: int,
    label_key: str | None,
    seed: int,
    checked: int = MOST_CHECKED_OF_CLASS,
) -> tuple[RetainFit, list[Batch]]:
    """Up to `per_class` samples of each class to fit, and up to `checked` others to check, by their `labels` (n,)."""
    generator = torch.Generator().manual_seed(seed)
    fit: dict[int, Tensor] = {}
    check: list[Tensor] = []
    classes = labels.unique().tolist()
    for k in classes:
        own = (labels == k).nonzero().flatten()
        own = own[torch.randperm(len(own), generator=generator)]
        most = min(checked, max(4, per_class // 4), max(1, _MOST_CHECKED // len(classes)))
        held_out = min(most, max(1, len(own) // 5))
        check.append(own[:held_out])
        fit[k] = own[held_out : held_out + per_class]
    chosen = torch.cat(check)
    order = torch.randperm(len(chosen), generator=torch.Generator().manual_seed(seed))
    take = partial(_read, dataset, label_key)
    return RetainFit(take, fit), read_together(take, chosen[order].split(BATCH))


def split_forgotten(samples: HasSamples, share: float, *, most: int = 256, seed: int) -> tuple[HasSamples, HasSamples]:
    """Forgotten samples to fit, and the `share` of them, at most `most`, that only tells when to stop.

    With a share of 0 all samples serve both ends.
    """
    if share == 0:
        return samples, samples
    # A tenth of a small class is too few samples to tell anything: take up to a quarter of it.
    held_out = min(most, max(1, int(share * len(samples)), min(64, len(samples) // 4)))
    if held_out == len(samples):
        return samples, samples
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed))
    return picked(samples, order[held_out:]), samples[order[:held_out]]


def read_forgotten(dataset: Dataset[object], labels: Tensor | None, *, label_key: str | None, keep: int) -> HasSamples:
    """All samples of a data set, if they take no more than `keep` bytes; else each is read when it is needed.

    Their `labels` (n,) are found by reading them, if nobody knows them and they are needed.
    """

    def known() -> Tensor:
        return read_labels(dataset, label_key=label_key) if labels is None else labels

    return kept_or_read(partial(_read, dataset, label_key), known, size_of(dataset), batch=BATCH, keep=keep)


def _nothing(positions: Tensor) -> Batch:
    raise InvalidRequest("there are no retained samples to fit: the guide is at hand already")


def _read(dataset: Dataset[object], label_key: str | None, positions: Tensor) -> Batch:
    return read(dataset, positions.tolist(), label_key=label_key)
