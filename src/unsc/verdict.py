"""Whether what was asked for was reached: from what was measured, and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
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

    It calls them by their own class (a forgotten one) more often than it calls retained samples so, by a test of two
    shares at 1 %. An untrained network calls both alike; one that has forgotten already calls neither so.
    """
    if request.kind == "records":  # a record's own class stays, and may be known from others
        return True
    some = join(retained)[torch.arange(min(_COMPARED, sum(map(len, retained))))]
    ours, others = (
        known(original, forget, request.removed(forget.labels)),
        known(original, some, request.removed(some.labels)),
    )
    pooled = (ours.hits + others.hits) / (ours.n + others.n)
    spread = math.sqrt(pooled * (1 - pooled) * (1 / ours.n + 1 / others.n))
    return (ours.percent - others.percent) / 100 > _SURE * spread


def judge(request: Request, known_before: bool, after: Known) -> Status:
    """The status of a request whose held-out samples (or records) are still known to this extent."""
    if not known_before:
        return "not known"
    return "forgotten" if after.percent <= FORGOTTEN else "not forgotten"
