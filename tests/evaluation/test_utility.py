"""Accuracies, gaps and harm against counts by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.cost import Cost
from unsc.evaluation.shared.case import Case
from unsc.evaluation.shared.metrics import measure
from unsc.evaluation.shared.shares import share_by_class, wilson
from unsc.evaluation.utility import accuracies
from unsc.request import Request


class Shifted(nn.Module):
    """Gives its input as scores, `by` classes to the right."""

    def __init__(self, by: int = 0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.by = by

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x.roll(self.by, dims=1)


class Told(nn.Module):
    """Gives its input as scores, but `told` for all that it would give another class."""

    def __init__(self, wrong: int, told: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.wrong, self.told = wrong, told

    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()
        x[x.argmax(dim=1) == self.wrong] = torch.eye(x.shape[1])[self.told]
        return self.scale * x


def part(predicted: list[int], labels: list[int]) -> Batch:
    return Batch(torch.eye(4)[predicted] - 0.5, torch.tensor(labels))


PARTS = {
    "forget_train": part([3, 3, 3, 0], [3, 3, 3, 3]),
    "retain_train": part([0, 1, 2, 2], [0, 1, 2, 2]),
    "forget_test": part([3, 0], [3, 3]),
    "retain_test": part([0, 0, 1, 1, 2], [0, 0, 1, 2, 1]),
}


def case(model: nn.Module, **more: object) -> Case:
    return Case(model, Request.for_classes([3], 4), PARTS, **more)  # type: ignore[arg-type]


def test_accuracies_are_counted() -> None:
    found = accuracies(case(Shifted()))
    assert {name: v.value for name, v in found.items()} == {
        "retain_test_acc": 60.0,
        "forget_test_acc": 50.0,
        "retain_train_acc": 100.0,
        "forget_train_acc": 75.0,
    }
    assert [v.n for v in found.values()] == [5, 2, 4, 4]
    assert found["retain_test_acc"].detail == {"0": 100.0, "1": 50.0, "2": 0.0}
    assert found["forget_test_acc"].detail is None
    assert all(v.low < v.value <= v.high for v in found.values())  # type: ignore[operator]


def test_wilson_interval() -> None:
    """Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 1998, table I."""
    for (hits, n), expected in {
        (81, 263): (25.53, 36.62),
        (15, 148): (6.24, 16.05),
        (0, 20): (0.0, 16.11),
        (1, 29): (0.61, 17.18),
    }.items():
        assert wilson(hits, n) == pytest.approx(expected, abs=0.006)
    low, high = wilson(20, 20)
    assert low == pytest.approx(100 - 16.11, abs=0.006) and high == 100 and wilson(0, 20)[0] == 0


@pytest.mark.parametrize("hits", [0, 1, 7, 19, 20])
def test_wilson_solves_its_equation(hits: int) -> None:
    """The bounds p are where the observed share is 1.96 standard deviations of p away: |h/n - p| = z sqrt(p(1-p)/n)."""
    for bound in wilson(hits, 20):
        p = bound / 100
        assert abs(hits / 20 - p) == pytest.approx(1.959964 * (p * (1 - p) / 20) ** 0.5, abs=1e-9)


def test_gaps_are_signed_differences() -> None:
    """The retrained model is wrong where its input is right: it has 0 % of the forgotten and 0 % of the retained."""
    found = measure(case(Shifted(), retrained=Told(3, 0)), ["retain_gap", "forget_gap"]).values
    assert (found["retain_gap"].value, found["forget_gap"].value) == (0.0, 50.0)
    found = measure(case(Told(0, 2), retrained=Shifted()), ["retain_gap", "forget_gap"]).values
    assert (found["retain_gap"].value, found["forget_gap"].value) == (pytest.approx(-40.0), 0.0)
    assert (found["retain_gap"].n, found["forget_gap"].n) == (5, 2)


def test_harm_is_that_of_the_worst_class() -> None:
    """Class 0 falls from 100 % to 0 %, class 1 stays, class 2 gains nothing."""
    found = measure(case(Told(0, 3), original=Shifted()), ["neighbour_harm"]).values["neighbour_harm"]
    assert (found.value, found.n) == (100.0, 2)
    assert found.detail == {"0": 100.0, "1": 0.0, "2": 0.0}
    gained = measure(case(Shifted(), original=Told(0, 3)), ["neighbour_harm"]).values["neighbour_harm"]
    assert gained.detail["0"] == -100.0 and gained.value == 0.0


def test_shares_by_class_are_in_the_order_of_classes() -> None:
    hits, labels = torch.tensor([True, False, True, True]), torch.tensor([7, 2, 2, 7])
    assert list(share_by_class(hits, labels).items()) == [("2", 50.0), ("7", 100.0)]


def test_costs_do_not_matter_here() -> None:
    """What a metric does not need changes nothing."""
    assert accuracies(case(Shifted(), cost=Cost(1.0, None))) == accuracies(case(Shifted()))
