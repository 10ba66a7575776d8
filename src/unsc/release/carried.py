"""A request that was carried out from a store: what was measured, for the gate, the report and later requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import torch
from torch import nn

from unsc.batches import Batch, HasSamples
from unsc.evaluation.side_by_side import Network, side_by_side
from unsc.models import working_copy
from unsc.release.at_hand import AtHand
from unsc.release.manifest import Manifest, Resolved
from unsc.release.measured import Pair, by_class, of_attack, of_forgotten, of_retained, of_revival, predicted, share
from unsc.release.policy import Figure
from unsc.request import of_classes
from unsc.result import Forgotten
from unsc.task import Samples

_SHOWN = 512
"""Forgotten samples of classes, and samples of either kind in a report, that are looked at, at most."""


@dataclass(frozen=True)
class Carried:
    """The networks before and after, and all samples that are at hand to compare them on."""

    manifest: Manifest
    resolved: Resolved
    at_hand: AtHand
    samples: Samples
    whole: Batch
    """All samples that were forgotten."""
    before: nn.Module
    """A working copy of the network before the request."""
    result: Forgotten

    @cached_property
    def after(self) -> nn.Module:
        return working_copy(self.result.model)

    @cached_property
    def forgotten(self) -> Pair:
        """Of classes only some samples: each of them costs two forward passes."""
        some = len(self.whole) if self.result.request.kind == "records" else min(len(self.whole), _SHOWN)
        return self._pair(self.whole[torch.arange(some)])

    @cached_property
    def watched(self) -> Pair | None:
        """Retained samples; None if none is at hand."""
        pairs = [self._pair(batch) for batch in self.at_hand.watched]
        return Pair.joined(pairs) if pairs else None

    @cached_property
    def unseen(self) -> Pair | None:
        """Validation samples; None if there are none."""
        return None if self.at_hand.unseen.batch is None else self._pair(self.at_hand.unseen.batch)

    @property
    def promise(self) -> str:
        """What can be said of the candidate. Whether it is enough is for the policy to say."""
        metrics = self.result.metrics
        if metrics.status == "not forgotten":
            return f"The run did not get as far as it should by itself; the policy decides. {metrics.note}"
        return metrics.promise

    def figures(self) -> dict[str, Figure]:
        """All that was measured or predicted; the policy's checks are among it."""
        request, metrics = self.result.request, self.result.metrics
        held_out = self.forgotten if request.kind == "records" else self._pair(self.samples.forget_check)
        found = of_forgotten(held_out, request, metrics)
        if self.watched is None:
            found |= predicted(metrics)
        else:
            found |= of_retained(self.watched, request, metrics.temperature)
        if self.unseen is not None:
            found |= self._beside_unseen(self.unseen)
        if request.kind == "records":
            found["copies_left"] = Figure(float(len(self.manifest.copies(self.resolved.ids))))
        seen = [pair.after for pair in (held_out, self.watched) if pair is not None]
        return found | of_revival(self.after, self.manifest.gone, self.at_hand.former, seen)

    def _beside_unseen(self, unseen: Pair) -> dict[str, Figure]:
        """Forgotten samples beside validation samples of their classes."""
        if not self.resolved.classes:
            return of_attack(self.forgotten, unseen.like(self.forgotten))
        own = unseen.where(of_classes(unseen.labels, self.resolved.classes))
        if not len(own.labels):
            return {}
        before, after = map(share, own.hits())
        found = {"validation_forget_acc": after, "validation_forget_acc_before": before}
        return found | of_attack(self.forgotten, own)

    def report(self) -> dict[str, Any]:
        """What else is worth telling."""
        m, names, at_hand = self.result.metrics, self.manifest.class_names, self.at_hand
        beside = self.unseen if at_hand.watched_on == "validation" else self.watched
        return {
            "request": {
                "kind": m.request,
                "classes": [names[k] for k in self.resolved.classes],
                "samples": len(self.resolved.ids),
                "copies_left": list(self.manifest.copies(self.resolved.ids)),
                "gone_before": [names[k] for k in self.manifest.gone],
            },
            "measured_on": {
                "retained": at_hand.watched_on,
                "samples": sum(map(len, at_hand.watched)),
                "validation": 0 if self.unseen is None else len(self.unseen.labels),
                "left_out": at_hand.unseen.overlapping,
            },
            "by_class": by_class(beside, names),
            "run": {
                "status": m.status,
                "note": m.note,
                "stopped": m.stopped,
                "steps": m.steps,
                "steps_taken_back": m.steps_taken_back,
                "passes": m.passes,
                "seconds": m.seconds,
                "temperature": m.temperature,
                "edited": asdict(m.edited),
            },
            "course": [asdict(check) for check in m.history],
        }

    def shown(self) -> dict[str, Any] | None:
        """What a report shows beside that, where there is validation data to show it on."""
        test, m = self.at_hand.unseen.part, self.result.metrics
        if test is None:
            return None
        first = torch.arange(_SHOWN)
        forgotten = self.at_hand.forgotten.part
        return side_by_side(
            [
                Network("original", "Before", "original", self.before),
                Network("result", "Result", "result", self.after, m.seconds, m.drift_max),
            ],
            self.result.request,
            test=test[first[: len(test)]],
            data="validation data",
            forgotten=forgotten[first[: len(forgotten)]],
            class_names=self.manifest.class_names,
            run=m,
        )

    def to_mark(self) -> Iterator[tuple[str, int, float, float]]:
        """Fingerprint and label of forgotten samples at hand, and the probability of it before and after."""
        scores = [(-s.losses()).exp().tolist() for s in (self.forgotten.before, self.forgotten.after)]
        return zip(self.at_hand.forgotten.prints, self.forgotten.labels.tolist(), *scores, strict=False)

    def _pair(self, samples: HasSamples) -> Pair:
        return Pair.of(self.before, self.after, samples)
