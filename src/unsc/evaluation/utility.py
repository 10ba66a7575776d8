"""Accuracy: what the model still can do, and what it should no longer do."""

from __future__ import annotations

from torch import Tensor, nn

from unsc.evaluation.shared.case import Case, Part
from unsc.evaluation.shared.measures import Metric, Value, measures

_Z = 1.959964
"""The 97.5 % point of the standard normal distribution."""


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
    right, n = int(hits.sum()), len(hits)
    low, high = wilson(right, n)
    return Value(100 * right / n, n, low, high, detail)


def share_by_class(hits: Tensor, labels: Tensor) -> dict[str, float]:
    """The percentage of `hits`, bool (n,), that are true in each class of `labels` (n,)."""
    return {str(k): 100 * hits[labels == k].double().mean().item() for k in labels.unique().tolist()}


def correct(case: Case, part: Part, model: nn.Module | None = None) -> Tensor:
    """Which samples of a part the judged model, or another one, classifies correctly: bool (n,)."""
    return case.logits(part, model).argmax(dim=1) == case.labels(part).cpu()


def accuracy(case: Case, part: Part, model: nn.Module | None = None) -> float:
    """In percent."""
    return 100 * correct(case, part, model).double().mean().item()


_GONE = "the forgotten; for whole classes retraining gets 0, for records about what it gets on unseen samples"


@measures(
    Metric("retain_test_acc", "retain", "higher", "%", "Accuracy on test samples of what is retained."),
    Metric("forget_test_acc", "forget", "lower", "%", f"Accuracy on test samples of {_GONE}."),
    Metric("retain_train_acc", "retain train", "higher", "%", "Accuracy on training samples of what is retained."),
    Metric("forget_train_acc", "forget train", "lower", "%", f"Accuracy on training samples of {_GONE}."),
)
def accuracies(case: Case) -> dict[str, Value]:
    found = {}
    parts: tuple[Part, ...] = ("retain_test", "forget_test", "retain_train", "forget_train")
    for part in parts:
        hits = correct(case, part)
        by_class = share_by_class(hits, case.labels(part).cpu())
        found[f"{part}_acc"] = share(hits, by_class if len(by_class) > 1 else None)
    return found


@measures(
    Metric(
        "retain_gap",
        "retain gap",
        "reference",
        "points",
        "Accuracy on retained test samples minus the retrained model's; 0 is like retraining.",
        ("retrained",),
    ),
    Metric(
        "forget_gap",
        "forget gap",
        "reference",
        "points",
        "Accuracy on forgotten test samples minus the retrained model's; 0 is like retraining.",
        ("retrained",),
    ),
)
def gaps_to_retraining(case: Case) -> dict[str, Value]:
    found = {}
    parts: tuple[tuple[str, Part], ...] = (("retain_gap", "retain_test"), ("forget_gap", "forget_test"))
    for name, part in parts:
        gap = accuracy(case, part) - accuracy(case, part, case.retrained)
        found[name] = Value(gap, len(case.parts[part]))
    return found


@measures(
    Metric(
        "neighbour_harm",
        "worst loss",
        "lower",
        "points",
        "The largest loss of test accuracy, against the original model, among the retained classes.",
        ("original",),
    )
)
def harm_to_neighbours(case: Case) -> dict[str, Value]:
    labels = case.labels("retain_test").cpu()
    before = share_by_class(correct(case, "retain_test", case.original), labels)
    after = share_by_class(correct(case, "retain_test"), labels)
    losses = {k: before[k] - after[k] for k in before}
    worst = max(losses, key=lambda k: losses[k])
    return {"neighbour_harm": Value(losses[worst], int((labels == int(worst)).sum()), detail=losses)}
