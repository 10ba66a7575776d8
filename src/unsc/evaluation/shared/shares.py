"""Shares of samples, in percent: how many of them a model classifies correctly, and how sure that number is."""

from __future__ import annotations

from torch import Tensor, nn

from unsc.evaluation.shared.case import Case, Part
from unsc.evaluation.shared.metrics import Value

_Z = 1.959964
"""The 97.5 % point of the standard normal distribution."""


def percent(hits: Tensor) -> float:
    """The percentage of `hits`, bool (n,), that are true."""
    return 100 * int(hits.sum()) / len(hits)


def wilson(hits: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a share, in percent, from `hits` of `n` samples.

    Wilson, "Probable inference, the law of succession, and statistical inference", JASA 1927. Unlike the usual
    `p ± 1.96 sd` it neither leaves 0 to 100 nor shrinks to a point where no sample or every sample is a hit.
    """
    share, spread = hits / n, _Z**2 / n
    centre = (share + spread / 2) / (1 + spread)
    half = (spread * (share * (1 - share) + spread / 4)) ** 0.5 / (1 + spread)
    # Rounding must not move the ends: no hit is compatible with 0, all hits are with 100.
    return 100 * (centre - half) if hits else 0.0, 100 * (centre + half) if hits < n else 100.0


def share(hits: Tensor, detail: object = None) -> Value:
    """The percentage of `hits`, bool (n,), that are true, with its interval."""
    return Value(percent(hits), len(hits), *wilson(int(hits.sum()), len(hits)), detail)


def share_by_class(hits: Tensor, labels: Tensor) -> dict[str, float]:
    """The percentage of `hits`, bool (n,), that are true in each class of `labels` (n,)."""
    return {str(k): percent(hits[labels == k]) for k in labels.unique().tolist()}


def correct(case: Case, part: Part, model: nn.Module | None = None) -> Tensor:
    """Which samples of a part the judged model, or another one, classifies correctly: bool (n,)."""
    return case.logits(part, model).argmax(dim=1) == case.labels(part).cpu()


def accuracy_on(case: Case, part: Part, model: nn.Module | None = None) -> float:
    """The accuracy of the judged model, or another one, on a part, in percent; from scores that are computed once."""
    return percent(correct(case, part, model))
