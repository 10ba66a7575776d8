"""Whether what was asked for was reached: from what was measured, and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch, join
from unsc.logits import all_logits
from unsc.request import Request

Status: TypeAlias = Literal["forgotten", "not forgotten", "not known"]
"""`not known`: the network did not know the class to begin with, so that nothing can be shown to be forgotten."""

FORGOTTEN = 1.0
"""Percent of held-out samples that may still be classified as before."""
_SURE = 2.326
"""One-sided 99 % point of the standard normal distribution."""
_COMPARED = 512
_POINTS = 10.0


@dataclass(frozen=True)
class Known:
    """How many of `n` samples a network classifies as something that it is to forget."""

    hits: int
    n: int

    @property
    def percent(self) -> float:
        return 100 * self.hits / self.n


@torch.no_grad()
def known(model: nn.Module, batch: Batch, removed: Tensor) -> Known:
    """Of a batch, for each of whose samples some classes are `removed`, bool (n, classes)."""
    here = batch.for_model(model)
    predicted = all_logits(model, here).argmax(dim=1, keepdim=True)
    return Known(int(removed.to(predicted.device).gather(1, predicted).sum()), len(batch))


def was_known(original: nn.Module, request: Request, forget: Batch, retained: Sequence[Batch]) -> bool:
    """Whether the original network tells samples to forget from others at all.

    It calls them by a class to forget more often than it calls retained samples so, by ten points at least and beyond
    chance (a test of two shares at 1 %), and it is right on retained samples more often than guessing would be. An
    untrained network is not; one that has forgotten already calls neither so.
    """
    if request.kind == "records":  # a record's own class stays, and may be known from others
        return True
    some = join(retained)[torch.arange(min(_COMPARED, sum(map(len, retained))))]
    ours, others = (known(original, batch, request.removed(batch.labels)) for batch in (forget, some))
    right = known(original, some, F.one_hot(some.labels, request.num_classes).bool())
    guessed = Known(right.n, right.n * request.num_classes)
    return _exceeds(ours, others, by=_POINTS) and _exceeds(right, guessed, by=0.0)


def _exceeds(one: Known, other: Known, *, by: float) -> bool:
    """Whether a share is higher than another, by so many points and beyond chance."""
    pooled = (one.hits + other.hits) / (one.n + other.n)
    spread = 100 * math.sqrt(pooled * (1 - pooled) * (1 / one.n + 1 / other.n))
    return one.percent - other.percent > max(by, _SURE * spread)


def judge(request: Request, known_before: bool, after: Known) -> Status:
    """The status of a request whose held-out samples (or records) are still known to this extent."""
    if not known_before:
        return "not known"
    return "forgotten" if after.percent <= FORGOTTEN else "not forgotten"
