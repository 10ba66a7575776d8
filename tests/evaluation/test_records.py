"""Records beside unseen samples: by hand, and where nothing tells them apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

from unsc.batches import Batch
from unsc.errors import InvalidRequest
from unsc.evaluation.distance import js_distance
from unsc.evaluation.records import accuracy_on_records, distance_on_records, loss_attack
from unsc.evaluation.shared.case import Case
from unsc.request import Request


def case(shift: float) -> Case:
    """Logits are the inputs; the records' true logit is higher by `shift` than an unseen sample's."""
    generator = torch.Generator().manual_seed(0)

    def part(n: int, more: float) -> Batch:
        labels = torch.randint(3, (n,), generator=generator)
        logits = torch.randn(n, 3, generator=generator)
        return Batch(logits + more * nn.functional.one_hot(labels, 3), labels)

    model = nn.Linear(3, 3)
    with torch.no_grad():
        model.weight.copy_(torch.eye(3))
        model.bias.zero_()
    other = nn.Linear(3, 3)
    return Case(
        model,
        Request.for_records(None, 3),
        {
            "forget_train": part(200, shift),
            "retain_train": part(50, shift),
            "forget_test": part(300, 0.0),
            "retain_test": part(300, 0.0),
        },
        retrained=other,
    )


def test_the_attack_is_the_auc_of_the_loss() -> None:
    """By scikit-learn; at chance where records look like unseen samples."""
    known = case(1.0)
    found = loss_attack(known)["loss_attack_auc"]
    losses = [
        nn.functional.cross_entropy(known.logits(part), known.labels(part), reduction="none")
        for part in ("forget_train", "forget_test")
    ]
    is_record = [1] * 200 + [0] * 300
    assert found.value == pytest.approx(roc_auc_score(is_record, -torch.cat(losses).numpy()))
    assert found.low is not None and found.high is not None and 0.6 < found.low < found.value < found.high
    none = loss_attack(case(0.0))["loss_attack_auc"]
    assert none.low is not None and none.high is not None and none.low < 0.5 < none.high


def test_accuracy_on_records_stands_beside_that_on_unseen_samples() -> None:
    found = accuracy_on_records(case(2.0))["records_acc"]
    assert found.n == 200 and found.value > found.detail["unseen"] + 20


def test_distance_to_retraining_is_on_the_records() -> None:
    known = case(1.0)
    found = distance_on_records(known)["js_records"]
    assert known.retrained is not None
    expected = js_distance(known.logits("forget_train"), known.logits("forget_train", known.retrained)).mean().item()
    assert found.value == pytest.approx(expected) and found.n == 200 and found.detail is None
    beside = distance_on_records(replace(known, twin=known.model))["js_records"]
    assert beside.detail == {"floor": pytest.approx(expected)}


@pytest.mark.parametrize("of", [loss_attack, accuracy_on_records, distance_on_records])
def test_for_classes_there_is_a_message(of: object) -> None:
    with pytest.raises(InvalidRequest, match="for records only"):
        of(replace(case(0.0), request=Request.for_classes([1], 3)))  # type: ignore[operator]
