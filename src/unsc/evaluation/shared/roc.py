"""How well scores tell positives from negatives, for one set of samples or for many resamples of it at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Roc:
    """Counts at every threshold from the highest score down; equal scores share a threshold. Shapes (..., t)."""

    hits: Tensor
    """How many positives score at least as high."""
    alarms: Tensor
    """How many negatives score at least as high."""

    def auc(self) -> Tensor:
        """The chance that a positive scores higher than a negative, ties counted half (Mann-Whitney). Shape (...)."""
        zero = torch.zeros_like(self.hits[..., :1])
        before = torch.cat([zero, self.hits[..., :-1]], dim=-1)
        new_alarms = self.alarms.diff(dim=-1, prepend=zero)
        # A group of ties is a diagonal step of the curve: its negatives meet the positives before it and half of its
        # own. Doubled, so that the sum is of integers and exact.
        twice = (new_alarms * (before + self.hits)).sum(dim=-1)
        return twice.double() / (2 * self.hits[..., -1] * self.alarms[..., -1]).double()

    def tpr(self, fpr: float) -> Tensor:
        """The share of positives found by the best threshold whose false positive rate is at most `fpr`. (...)."""
        negatives = self.alarms[..., -1:]
        # A whole number of false alarms is allowed: 0.29 * 100 is 28.999... in floating point.
        allowed = self.alarms <= (fpr * negatives.double() + 1e-9).floor()
        return self.hits.masked_fill(~allowed, 0).amax(dim=-1).double() / self.hits[..., -1].double()


def roc(positives: Tensor, negatives: Tensor, times: tuple[Tensor, Tensor] | None = None) -> Roc:
    """The curve of two sets of scores (n,) and (m,), a higher score speaking for a positive.

    `times` says how often each score counts in each of r resamples, int64 (r, n) and (r, m); once each without it.
    """
    n, m = len(positives), len(negatives)
    if times is None:
        times = torch.ones(n, dtype=torch.int64), torch.ones(m, dtype=torch.int64)
    ordered, order = torch.cat([positives, negatives]).sort(descending=True)
    last = torch.cat([ordered[1:] != ordered[:-1], torch.ones(1, dtype=torch.bool)])  # of its group of ties
    hits = torch.nn.functional.pad(times[0], (0, m))[..., order].cumsum(dim=-1)
    alarms = torch.nn.functional.pad(times[1], (n, 0))[..., order].cumsum(dim=-1)
    return Roc(hits[..., last], alarms[..., last])
