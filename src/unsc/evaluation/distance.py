"""How far the model's predictions are from those of a model that was retrained."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unsc.errors import InvalidRequest, UnsupportedModel
from unsc.evaluation.shared.case import ABOUT_NEEDS, Case, Part
from unsc.evaluation.shared.metrics import Metric, Value, measures
from unsc.evaluation.shared.shares import accuracy_on, share


def js_distance(logits: Tensor, others: Tensor) -> Tensor:
    """The Jensen-Shannon distance, in [0, 1], between the predictions of two models for each sample: (n,).

    It is the square root of the divergence with logarithms to base 2 (Endres and Schindelin, "A new metric for
    probability distributions", IEEE Transactions on Information Theory 2003). Scores are (n, classes).
    """
    p, q = logits.softmax(dim=1), others.softmax(dim=1)
    if not (torch.isfinite(p).all() and torch.isfinite(q).all()):
        raise UnsupportedModel("a model's predictions are NaN; check its weights and the scale of its inputs")
    mean = (p + q) / 2
    # xlogy(0, 0) is 0: a class that neither model believes in adds nothing.
    nats = (torch.xlogy(p, p) + torch.xlogy(q, q) - 2 * torch.xlogy(mean, mean)).sum(dim=1) / 2
    bits = nats / torch.log(torch.tensor(2.0, dtype=nats.dtype))
    return bits.clamp(0, 1).sqrt()


def tug_of_war(differences: list[float]) -> float:
    """The product of `1 - |d|` over differences d of accuracies, given as shares of 1: 1 is like retraining.

    Zhao et al., "What makes unlearning hard and what to do about it", NeurIPS 2024.
    """
    product = 1.0
    for difference in differences:
        product *= 1 - abs(difference)
    return product


def counterpart(case: Case) -> nn.Module:
    """The retrained model to compare with; if that is itself the judged one, its twin.

    Without a twin there is nothing to compare it with: its distance to itself says nothing.
    """
    if case.model is not case.retrained:
        return case.needed("retrained")
    if case.twin is None:
        raise InvalidRequest(f"the retrained model cannot be compared with itself; give {ABOUT_NEEDS['twin']}")
    return case.twin


def floor(case: Case) -> Case | None:
    """The case of the retrained model against its twin: no model can be expected to be nearer than these two are."""
    return case.of(case.retrained) if case.retrained is not None and case.twin is not None else None


_NEEDS = ("retrained",)


@measures(
    Metric("js_forget", "JS forget", "lower", "", "Mean Jensen-Shannon distance, 0 to 1, on forgotten test samples "
           "between the predictions and the retrained model's.", _NEEDS),
    Metric("js_retain", "JS retain", "lower", "", "Mean Jensen-Shannon distance, 0 to 1, on retained test samples "
           "between the predictions and the retrained model's.", _NEEDS),
    Metric("agreement_forget", "alike forget", "higher", "%",
           "Share of forgotten test samples that are classified as by the retrained model.", _NEEDS),
    Metric("agreement_retain", "alike retain", "higher", "%",
           "Share of retained test samples that are classified as by the retrained model.", _NEEDS),
    Metric("tug_of_war", "ToW", "higher", "", "Product of 1 minus the difference in accuracy from the retrained model, "
           "over forgotten training, retained training and retained test samples; 1 is like retraining.", _NEEDS),
)  # fmt: skip
def distances_to_retraining(case: Case) -> dict[str, Value]:
    found = _compare(case)
    lowest = floor(case)
    if lowest is None:
        return found
    nearest = _compare(lowest)
    return {name: Value(v.value, v.n, v.low, v.high, {"floor": nearest[name].value}) for name, v in found.items()}


def _compare(case: Case) -> dict[str, Value]:
    other = counterpart(case)
    found: dict[str, Value] = {}
    parts: tuple[tuple[str, Part], ...] = (("forget", "forget_test"), ("retain", "retain_test"))
    for name, part in parts:
        mine, theirs = case.logits(part), case.logits(part, other)
        found[f"js_{name}"] = _mean(js_distance(mine, theirs))
        found[f"agreement_{name}"] = share(mine.argmax(dim=1) == theirs.argmax(dim=1))
    samples: tuple[Part, ...] = ("forget_train", "retain_train", "retain_test")
    differences = [(accuracy_on(case, part) - accuracy_on(case, part, other)) / 100 for part in samples]
    found["tug_of_war"] = Value(tug_of_war(differences), sum(len(case.parts[part]) for part in samples))
    return found


def _mean(distances: Tensor) -> Value:
    """The mean of (n,) numbers in [0, 1], with a normal 95 % interval."""
    n, mean = len(distances), distances.mean().item()
    if n == 1:
        return Value(mean, n)
    half = 1.96 * distances.std().item() / n**0.5
    return Value(mean, n, max(0.0, mean - half), min(1.0, mean + half))
