"""Accuracy: what the model can still do, and what it should no longer do."""

from __future__ import annotations

from unsc.evaluation.distance import counterpart
from unsc.evaluation.shared.case import Case, Part
from unsc.evaluation.shared.metrics import Metric, Value, measures
from unsc.evaluation.shared.shares import accuracy_on, correct, share, share_by_class

_GONE = "retraining gets 0 for whole classes, and for records about its accuracy on unseen samples"


@measures(
    Metric("retain_test_acc", "retain", "higher", "%", "Accuracy on retained test samples."),
    Metric("forget_test_acc", "forget", "lower", "%", f"Accuracy on forgotten test samples; {_GONE}."),
    Metric("retain_train_acc", "retain train", "higher", "%", "Accuracy on retained training samples."),
    Metric("forget_train_acc", "forget train", "lower", "%", f"Accuracy on forgotten training samples; {_GONE}."),
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
    found, other = {}, counterpart(case)
    parts: tuple[tuple[str, Part], ...] = (("retain_gap", "retain_test"), ("forget_gap", "forget_test"))
    for name, part in parts:
        gap = accuracy_on(case, part) - accuracy_on(case, part, other)
        found[name] = Value(gap, len(case.parts[part]))
    return found


@measures(
    Metric(
        "neighbour_harm",
        "worst loss",
        "lower",
        "points",
        "The largest loss of test accuracy among the retained classes, compared with the original model.",
        ("original",),
    )
)
def harm_to_neighbours(case: Case) -> dict[str, Value]:
    labels = case.labels("retain_test").cpu()
    before = share_by_class(correct(case, "retain_test", case.needed("original")), labels)
    after = share_by_class(correct(case, "retain_test"), labels)
    losses = {k: before[k] - after[k] for k in before}
    worst = max(losses, key=lambda k: losses[k])
    return {"neighbour_harm": Value(losses[worst], int((labels == int(worst)).sum()), detail=losses)}
