"""What is measured of a candidate, as figures with intervals: forgetting, retained predictions, attack, revival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unsc.batches import HasSamples
from unsc.evaluation.shared.shares import wilson
from unsc.ranks import auc
from unsc.release.at_hand import Former
from unsc.release.policy import Figure
from unsc.request import Request, of_classes
from unsc.result import RunMetrics
from unsc.targets import Scores, scores_of
from unsc.watch import Estimate, divergences

_SURE = 1.96
"""Standard errors on either side of a 95 % interval."""
_FEWEST = 20
"""Samples of a class that its accuracy is judged from, and forgotten samples that an attack is judged from."""
_FEWEST_UNSEEN = 50
"""Unseen samples that these are held against: by chance alone, fewer look different too often."""


@dataclass(frozen=True)
class Pair:
    """What the network before a request, and the candidate, say of the same samples; both on one device."""

    before: Scores
    after: Scores

    @classmethod
    def of(cls, before: nn.Module, after: nn.Module, samples: HasSamples) -> Pair:
        return cls(scores_of(before, samples), scores_of(after, samples))

    @classmethod
    def joined(cls, pairs: Sequence[Pair]) -> Pair:
        """Of several batches as one."""

        def cat(scores: Sequence[Scores]) -> Scores:
            return Scores(torch.cat([s.logits for s in scores]), torch.cat([s.labels for s in scores]))

        return cls(cat([pair.before for pair in pairs]), cat([pair.after for pair in pairs]))

    @property
    def labels(self) -> Tensor:
        return self.after.labels

    def hits(self) -> tuple[Tensor, Tensor]:
        """Whether each sample is classified as its label, bool (n,)."""
        return tuple(s.logits.argmax(dim=1) == s.labels for s in (self.before, self.after))  # type: ignore[return-value]

    def like(self, other: Pair) -> Pair:
        """Those of the classes that another has; all if these are few."""
        alike = torch.isin(self.labels, other.labels.unique())
        return self.where(alike) if int(alike.sum()) >= _FEWEST_UNSEEN else self

    def where(self, chosen: Tensor) -> Pair:
        return Pair(*(Scores(s.logits[chosen], s.labels[chosen]) for s in (self.before, self.after)))


def of_forgotten(pair: Pair, request: Request, metrics: RunMetrics) -> dict[str, Figure]:
    """Of the samples that tell whether it was forgotten: held-out samples of classes, or the records."""
    removed = request.removed(pair.labels)
    known = [removed.gather(1, s.logits.argmax(dim=1, keepdim=True))[:, 0] for s in (pair.before, pair.after)]
    before, after = map(share, known)
    if metrics.records is None:
        return {"forget_acc": after, "forget_acc_before": before}
    told = metrics.records
    error = told.distance_error
    low, high = (
        (None, None) if error is None else (max(0.0, told.distance - _SURE * error), told.distance + _SURE * error)
    )
    # Where nobody could say what unseen samples get, the distance is one from a guess.
    source = "measured" if told.validation is not None else "predicted"
    return {
        "record_distance": Figure(told.distance, low, high, len(pair.labels), source),
        "record_distance_before": Figure(told.distance_before, n=len(pair.labels), source=source),
        "record_acc": after,
        "record_acc_before": before,
    }


def of_retained(pair: Pair, request: Request, temperature: float) -> dict[str, Figure]:
    """Of retained samples: what they lost, and how far their predictions moved over the classes that stay."""
    before, after = pair.hits()
    lost = mean(100.0 * (before.double() - after.double()))
    stays = request.stays.to(pair.labels.device)
    stays = stays if int(stays.sum()) > 1 else torch.ones_like(stays)
    logs = [(s.logits[:, stays].float() / temperature).log_softmax(dim=1) for s in (pair.before, pair.after)]
    found = {
        "retain_acc": share(after),
        "retain_acc_before": share(before),
        "retain_drop": lost,
        "retained_kl": mean(divergences(logs[0], logs[1], temperature)),
    }
    drops = {
        int(k): mean(100.0 * (before[own].double() - after[own].double()))
        for k in pair.labels.unique()
        if int((own := pair.labels == k).sum()) >= _FEWEST
    }
    if drops:
        found["worst_class_drop"] = max(drops.values(), key=lambda figure: figure.value)
    return found


def of_attack(members: Pair, others: Pair) -> dict[str, Figure]:
    """How well the loss tells forgotten samples from unseen ones; nothing if either are few."""
    if len(members.labels) < _FEWEST or len(others.labels) < _FEWEST_UNSEEN:
        return {}
    sides = ((members.after, others.after), (members.before, others.before))
    after, before = (_area(-own.losses().cpu(), -other.losses().cpu()) for own, other in sides)
    return {"attack": after, "attack_before": before}


def of_revival(
    candidate: nn.Module, gone: Sequence[int], former: Former, others: Sequence[Scores]
) -> dict[str, Figure]:
    """How much of what earlier requests deleted is known again.

    Samples at hand that the candidate classifies as a class that is gone, and deleted records that somebody still has
    and whose probability is nearer to what it was than to what it became.
    """
    back: list[bool] = []
    if gone:
        for scores in others:
            back += of_classes(scores.logits.argmax(dim=1).cpu(), gone).tolist()
    if former.batch is not None:
        scores = scores_of(candidate, former.batch)
        called = of_classes(scores.logits.argmax(dim=1).cpu(), gone).tolist()
        now = (-scores.losses()).exp().tolist()
        for marker, as_gone, probability in zip(former.markers, called, now, strict=True):
            if marker.shows():
                back.append(as_gone if marker.of == "class" else marker.revived(probability))
    return {"revived": share(torch.tensor(back))} if back else {}


def by_class(pair: Pair | None, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Accuracy in percent of each class before and after, with the number of samples that it was measured on."""
    if pair is None:
        return {}
    found: dict[str, dict[str, Any]] = {}
    for k in map(int, pair.labels.unique()):
        before, after = map(share, pair.where(pair.labels == k).hits())
        found[names[k]] = {"n": before.n, "before": before.value, "after": after.value}
    return found


def share(hits: Tensor) -> Figure:
    """Percent of samples for which it is true, bool (n,), with Wilson's interval."""
    count, n = int(hits.sum()), len(hits)
    return Figure(100 * count / n, *wilson(count, n), n)


def mean(values: Tensor) -> Figure:
    """Of values (n,), with the interval of its standard error."""
    found = Estimate.of(values.double())
    value = max(0.0, found.mean) if bool((values >= 0).all()) else found.mean
    if len(values) < 2:
        return Figure(value, n=len(values))
    return Figure(value, found.mean - _SURE * found.error, found.mean + _SURE * found.error, len(values))


def predicted(metrics: RunMetrics) -> Mapping[str, Figure]:
    """What can be said of retained predictions when no retained sample is at hand."""
    return {"retained_kl": Figure(metrics.predicted_kl, source="predicted")}


def _area(members: Tensor, others: Tensor) -> Figure:
    """The area under the curve and its interval (Hanley and McNeil, 1982)."""
    area, n, m = auc(members, others), len(members), len(others)
    first, second = area / (2 - area), 2 * area**2 / (1 + area)
    spread = area * (1 - area) + (n - 1) * (first - area**2) + (m - 1) * (second - area**2)
    error = (max(spread, 0.0) / (n * m)) ** 0.5
    return Figure(area, max(0.0, area - _SURE * error), min(1.0, area + _SURE * error), n + m)
