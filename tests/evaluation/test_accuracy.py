"""Accuracy against a count by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from unsc.errors import InvalidData, InvalidRequest, UnscError, UnsupportedModel
from unsc.evaluation import evaluate


class Scores(nn.Module):
    """Gives its input as logits."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.dropout = nn.Dropout(0.9)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.scale * x)


def part(predicted: list[int], labels: list[int]) -> TensorDataset:
    return TensorDataset(torch.eye(4)[predicted] - 0.5, torch.tensor(labels))


RETAIN = part([0, 0, 1, 1, 2], [0, 0, 1, 2, 1])
FORGET = part([3, 0, 0, 1], [3, 3, 3, 3])


def test_accuracy_is_counted_by_part_and_by_class() -> None:
    """In percent, in evaluation mode, and the user's model keeps its own mode."""
    model = Scores().train()
    found = evaluate(model, retain_test=RETAIN, forget_test=FORGET)
    assert (found.retain_test_acc, found.forget_test_acc) == (60.0, 25.0)
    assert found.class_acc == {0: 100.0, 1: 50.0, 2: 0.0, 3: 25.0}
    assert model.training


def test_loaders_and_dicts_are_evaluated_too() -> None:
    """A class that is in both parts is counted over both."""

    class Dicts(Dataset):
        def __len__(self) -> int:
            return len(FORGET)

        def __getitem__(self, i: int) -> dict[str, Tensor]:
            x, y = FORGET[i]
            return {"x": x, "digit": y}

    found = evaluate(Scores(), retain_test=DataLoader(RETAIN, batch_size=2), forget_test=DataLoader(RETAIN))
    assert (found.retain_test_acc, found.forget_test_acc) == (60.0, 60.0)
    assert found.class_acc == {0: 100.0, 1: 50.0, 2: 0.0}
    found = evaluate(Scores(), retain_test=DataLoader(Dicts()), forget_test=Dicts(), label_key="digit")
    assert (found.retain_test_acc, found.forget_test_acc) == (25.0, 25.0)


@pytest.mark.parametrize("name", ["retain_test", "forget_test"])
def test_an_empty_part_is_refused(name: str) -> None:
    parts: dict[str, Any] = {"retain_test": RETAIN, "forget_test": FORGET, name: part([], [])}
    with pytest.raises(InvalidData, match=f"{name} is empty; give at least one sample"):
        evaluate(Scores(), **parts)


@pytest.mark.parametrize("kind", ["data set", "list", "loader"])
def test_classes_tell_the_parts_apart(kind: str) -> None:
    """One test set and the forgotten classes give what its two parts give."""
    together = TensorDataset(*(torch.cat([a, b]) for a, b in zip(RETAIN.tensors, FORGET.tensors, strict=True)))
    test = {
        "data set": together,
        "list": [*map(together.__getitem__, range(len(together)))],
        "loader": DataLoader(together, batch_size=2),
    }[kind]
    assert evaluate(Scores(), test, classes=[3]) == evaluate(Scores(), retain_test=RETAIN, forget_test=FORGET)  # type: ignore[arg-type]
    assert evaluate(Scores(), test, classes=3).forget_test_acc == 25.0  # type: ignore[arg-type]


def test_a_list_of_samples_is_evaluated() -> None:
    retain, forget = ([part[i] for i in range(len(part))] for part in (RETAIN, FORGET))
    assert evaluate(Scores(), retain_test=retain, forget_test=forget).retain_test_acc == 60.0


@pytest.mark.parametrize(
    "given",
    [{}, {"test": RETAIN}, {"classes": [3]}, {"test": RETAIN, "forget_test": FORGET}, {"retain_test": RETAIN}],
)
def test_half_a_question_is_refused(given: dict) -> None:
    with pytest.raises(InvalidRequest, match="either test and classes"):
        evaluate(Scores(), **given)


@pytest.mark.parametrize(("classes", "said"), [([3], r"classes 0, 1, 2; it needs samples of \[3\]"), ([9], "0 to 3")])
def test_a_class_without_samples_is_named(classes: list[int], said: str) -> None:
    with pytest.raises(UnscError, match=said):
        evaluate(Scores(), RETAIN, classes=classes)


def test_a_single_probability_is_not_taken_for_a_logit() -> None:
    """Its sign would say class 1 of every sample."""
    model = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
    with pytest.raises(UnsupportedModel, match="sigmoid"):
        evaluate(model, RETAIN, classes=[1])
    zeros = part([0, 1], [0, 1])
    found = evaluate(model, zeros, classes=[1], logits=torch.logit)
    assert found.class_acc[0] == 100 * float(model(zeros.tensors[0])[0, 0] <= 0.5)
