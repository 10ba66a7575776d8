"""Which controls fool a metric: computed, never declared.

A control changes nothing that the network knows. A retrained network never saw what was forgotten, the original still
knows it. A metric is fooled by a control if it puts the control nearer to retraining than to the original. A metric on
which the original itself is as good as retraining says nothing about forgetting: everything fools it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from unsc.evaluation.shared.metrics import Metric
from unsc.extras import need

ALL = "all"
"""Instead of names: the metric cannot even tell the original from retraining."""


_SHORT = {"logit_mask": "mask", "bias_shift": "bias", "head_only": "head", "finetune": "tuned"}


def in_words(names: tuple[str, ...] | None) -> str:
    """What `fooled_by` gives, for a table."""
    return "?" if names is None else ", ".join(_SHORT.get(name, name) for name in names) or "none"


def shortfall(metric: Metric, value: float, reference: float) -> float:
    """How much worse `value` is than what retraining gets, 0 if it is as good or better."""
    if metric.better == "reference":
        return abs(value - reference)
    return max(0.0, reference - value if metric.better == "higher" else value - reference)


def fooled_by(
    metric: Metric,
    controls: Mapping[str, Sequence[float]],
    *,
    original: Sequence[float],
    retrained: Sequence[float],
) -> tuple[str, ...] | None:
    """The names of the controls that fool a metric, `(ALL,)`, or None where it was not measured.

    Values are one for each trial, in the same order. The original counts as told apart from retraining if it is
    worse by a paired t-test at 5 %, or, with one trial alone, if it is worse at all.
    """
    if not original or len(original) != len(retrained) or any(map(math.isnan, (*original, *retrained))):
        return None

    def short(values: Sequence[float]) -> float:
        return fmean(shortfall(metric, v, r) for v, r in zip(values, retrained, strict=True))

    if not _told_apart([shortfall(metric, v, r) for v, r in zip(original, retrained, strict=True)]):
        return (ALL,)
    half = short(original) / 2
    whole = {k: v for k, v in controls.items() if len(v) == len(retrained) and not any(map(math.isnan, v))}
    return tuple(name for name, values in whole.items() if short(values) < half)


def _told_apart(differences: Sequence[float]) -> bool:
    """Whether differences are above 0, by Student's t at 5 % (two-sided)."""
    n, mean = len(differences), fmean(differences)
    if n == 1 or mean <= 0:
        return mean > 0
    need("scipy", extra="eval")
    from scipy.special import stdtrit

    return mean > float(stdtrit(n - 1, 0.975)) * stdev(differences) / math.sqrt(n)
