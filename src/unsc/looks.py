"""One look at samples to forget: how many a network still knows, their mass, and how far they are from their targets.

The run's checks, its stopping rule and the judgement of its result are all made from such looks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from unsc.batches import HasSamples
from unsc.logits import shared_logits

_PIECE = 32
"""Samples to look at before asking whether more are needed."""


@dataclass(frozen=True)
class Known:
    """How many of `n` samples a network classifies as something that it is to forget."""

    hits: int
    n: int

    @property
    def percent(self) -> float:
        return 100 * self.hits / self.n


@dataclass(frozen=True)
class Look:
    """What a network says of samples to forget, each (n,) but for the logits that it follows from."""

    hits: Tensor
    """Whether it is classified as a class that is removed for it, bool."""
    masses: Tensor
    """The probability of those classes, 0 to 1."""
    distances: Tensor
    """KL divergence of the prediction from its target, in nats."""
    wanted: Tensor
    """The probability that the target gives those classes, 0 to 1."""
    logits: Tensor
    """(n, classes)"""

    @classmethod
    def of(cls, logits: Tensor, removed: Tensor, targets: Tensor) -> Look:
        """From `logits`, classes `removed` for each sample and `targets`, all (n, classes)."""
        logs = logits.float().log_softmax(dim=1)
        hits = removed.gather(1, logits.argmax(dim=1, keepdim=True))[:, 0]
        masses, wanted = ((p * removed).sum(dim=1) for p in (logs.exp(), targets))
        return cls(hits, masses, divergences(targets, logs), wanted, logits)

    def __len__(self) -> int:
        return len(self.hits)

    @property
    def known(self) -> Known:
        return Known(int(self.hits.sum()), len(self))

    @property
    def mass(self) -> float:
        return self.masses.mean().item()

    @property
    def distance(self) -> float:
        return self.distances.mean().item()


def divergences(targets: Tensor, logs: Tensor) -> Tensor:
    """KL in nats of predictions with log-probabilities `logs` from `targets`, both (n, classes): (n,)."""
    return (torch.special.xlogy(targets, targets) - targets * logs).sum(dim=1)


def look_until(
    model: nn.Module, samples: HasSamples, removed: Tensor, targets: Tensor, enough: Callable[[Look], bool]
) -> Look:
    """A look at the first of some samples: `enough` says when no more are needed."""
    parts: list[Look] = []
    for chosen in torch.arange(len(samples)).split(_PIECE):
        parts.append(Look.of(shared_logits(model, samples, chosen), removed[chosen], targets[chosen]))
        seen = _joined(parts)
        if enough(seen):
            break
    return _joined(parts)


def _joined(parts: Sequence[Look]) -> Look:
    names = [f.name for f in fields(Look)]
    return Look(*(torch.cat([getattr(part, name) for part in parts]) for name in names))
