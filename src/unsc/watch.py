"""Watch what unlearning does to retained predictions, on retained samples that no moment was taken from.

The measure is the KL divergence in nats from the original network's predictions to the current ones, with the
forgotten classes taken out of both, as a network that never saw them would have it. A network that is certain
of everything hides large changes: its predictions are softened by a temperature T first, and the divergence
is multiplied by T squared, which keeps its second-order meaning. T is 1 unless the network is that certain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.logits import check_logits, shared_logits
from unsc.targets.scores import NO_SCORES, Scores

_UNCERTAINTY = 0.1
"""Softened predictions p have a mean of `1 - sum p**2` of at least this."""


_SURE = 3.0
"""A mean that is this many standard errors away from a limit is on its own side of it."""


@dataclass(frozen=True)
class Estimate:
    """A mean over so many `samples`, with its standard error; infinite where one sample leaves it unknown."""

    mean: float
    error: float
    samples: int

    @classmethod
    def of(cls, values: Tensor) -> Estimate:
        """The mean of `values` (n,)."""
        n = len(values)
        return cls(values.mean().item(), (values.var().item() / n) ** 0.5 if n > 1 else math.inf, n)

    def decides(self, limit: float) -> bool:
        """Whether it says on which side of a limit the mean is; NaN is on none, and more samples do not help."""
        return math.isnan(self.mean) or abs(self.mean - limit) > _SURE * self.error


class Watch:
    """Retained predictions of the original network, to hold later ones against."""

    def __init__(
        self,
        model: nn.Module,
        retained: Sequence[Batch],
        kept: Tensor,
        *,
        quick: int = 32,
        said: Tensor | None = None,
    ) -> None:
        """`model` is the original; `kept` (classes,) is true for classes that stay; `quick` samples serve each step.
        `said` (n, classes) is what the model says of all samples, if that is known.

        There may be no retained samples: then nothing is watched, and what steps cost can only be predicted.
        """
        # With a single class left, predictions over the classes that stay cannot change: watch them all.
        kept = kept if int(kept.sum()) > 1 else torch.ones_like(kept)
        self.kept = kept.to(next(model.parameters()).device)
        few, others = _parted([b.for_model(model) for b in retained], quick)
        self.batches, self._quick = [*few, *others], len(few)
        labels = [b.labels for b in self.batches]
        if said is None:
            with torch.no_grad():
                logits = [shared_logits(model, b) for b in self.batches]
        else:
            parts = said.to(self.kept.device).split([len(b) for b in retained])
            known = [Batch(part, b.labels) for part, b in zip(parts, retained, strict=True)]
            logits = [b.inputs for own in _parted(known, quick) for b in own]
        for part in logits:
            check_logits(part)
        self.original = Scores(torch.cat(logits), torch.cat(labels)) if labels else NO_SCORES
        """What the original network says of all samples."""
        self._logits = [part[:, self.kept].float() for part in logits]
        self.temperature = softening(torch.cat(self._logits)) if self._logits else 1.0

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Softened, over the classes that stay: (n, kept classes), from logits (n, classes).

        In float64, as a step's divergence is the small difference of two of them.
        """
        return (logits[:, self.kept].double() / self.temperature).log_softmax(dim=1)

    def kl(self, model: nn.Module) -> float:
        """Mean softened divergence of `model` from the original; NaN if its predictions are not finite."""
        return self.divergence(
            self._original(0, len(self.batches)), self._log_probabilities(model, 0, len(self.batches))
        )

    def kl_of(self, logits: Tensor) -> float:
        """The same of a model that says `logits` (n, classes) of all samples, in the order of `batches`."""
        return self.divergence(self._original(0, len(self.batches)), self.log_probabilities(logits))

    def kl_against(self, model: nn.Module, limit: float, seen: Tensor | None = None) -> Estimate:
        """The same on as many samples as it takes to tell whether it is beyond a `limit` in nats.

        `seen` is a quick look at the model, if there was one.
        """
        seen = self.quick_look(model) if seen is None else seen
        values = self._between(self.first_look(), seen)
        for i in range(self._quick, len(self.batches)):
            if Estimate.of(values).decides(limit):
                break
            values = torch.cat([values, self._divergences(model, i, i + 1)])
        return _not_negative(Estimate.of(values))

    def quick_look(self, model: nn.Module) -> Tensor:
        """Softened log-probabilities (n, kept classes) of the samples that serve each step."""
        return self._log_probabilities(model, 0, self._quick)

    def first_look(self) -> Tensor:
        """What a quick look at the original network saw."""
        return self._original(0, self._quick)

    def divergence(self, before: Tensor, after: Tensor) -> float:
        """Mean divergence in nats between two looks at the same samples."""
        return _not_negative(Estimate.of(self._between(before, after))).mean

    def divergence_from_original(self, seen: Tensor) -> float:
        """Mean divergence in nats of a quick look from the original's."""
        return self.divergence(self.first_look(), seen)

    def another(self, i: int) -> Batch:
        """The i-th batch that a quick look does not take, over and over; any batch if it takes all."""
        others = self.batches[self._quick :] or self.batches
        return others[i % len(others)]

    def _divergences(self, model: nn.Module, first: int, last: int) -> Tensor:
        """Of each sample in some of the batches, float64 (n,)."""
        return self._between(self._original(first, last), self._log_probabilities(model, first, last))

    def _between(self, p: Tensor, q: Tensor) -> Tensor:
        """Divergence of each sample, from one look to another, float64 (n,)."""
        return divergences(p, q, self.temperature)

    def _original(self, first: int, last: int) -> Tensor:
        return (torch.cat(self._logits[first:last]).double() / self.temperature).log_softmax(dim=1)

    @torch.no_grad()
    def _log_probabilities(self, model: nn.Module, first: int, last: int) -> Tensor:
        return torch.cat([self.log_probabilities(shared_logits(model, b)) for b in self.batches[first:last]])


def _parted(batches: Sequence[Batch], few: int) -> tuple[list[Batch], list[Batch]]:
    """The first `few` samples, and the others; what is left of a batch that is parted comes last."""
    first: list[Batch] = []
    others: list[Batch] = []
    rest: list[Batch] = []
    for batch in batches:
        taken = min(few - sum(map(len, first)), len(batch))
        if 0 < taken < len(batch):
            places = torch.arange(len(batch), device=batch.labels.device)
            first.append(batch[places[:taken]])
            rest.append(batch[places[taken:]])
        else:
            (first if taken else others).append(batch)
    return first, [*others, *rest]


def _not_negative(estimate: Estimate) -> Estimate:
    """Rounding can make a divergence of 0 negative; NaN stays what it is."""
    return replace(estimate, mean=0.0) if estimate.mean < 0 else estimate


def divergences(p: Tensor, q: Tensor, temperature: float) -> Tensor:
    """KL in nats from log-probabilities p to q, both (n, classes) and softened by a temperature: float64 (n,)."""
    return temperature**2 * (p.exp() * (p - q)).sum(dim=1).double()


def softening(logits: Tensor) -> float:
    """The smallest temperature, at least 1, at which predictions are uncertain enough to show a change."""
    temperature = 1.0
    while temperature < 100:
        p = (logits / temperature).softmax(dim=1)
        if (1 - p.square().sum(dim=1)).mean() >= _UNCERTAINTY:
            break
        temperature *= 1.1
    return temperature
