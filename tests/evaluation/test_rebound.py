"""What a later request does to an earlier one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from unsc.errors import InvalidData
from unsc.evaluation.rebound import rebound_after_later_requests
from unsc.evaluation.shared.case import Case, Later
from unsc.evaluation.shared.metrics import measure


class Masked(nn.Module):
    """The network as it was, with some classes out of reach."""

    def __init__(self, model: nn.Module, classes: Iterable[int]) -> None:
        super().__init__()
        self.model, self.classes = model, list(classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x).index_fill(1, torch.tensor(self.classes), -1e4)


def test_a_later_request_that_restores_the_original_gives_all_back(digits_case: Case) -> None:
    """It forgets nothing itself either."""
    original = digits_case.model
    case = replace(digits_case.of(Masked(original, [3])), later=Later((5,), lambda model: original))
    found = rebound_after_later_requests(case)
    accuracy = measure(digits_case, ["forget_test_acc"]).values["forget_test_acc"].value
    assert found["rebound"].value == accuracy > 90
    assert found["rebound"].detail == {"before": 0.0, "after": accuracy, "later_requests": 1}
    assert found["later_forget_acc"].value > 90
    assert found["later_forget_acc"].n == int((digits_case.labels("retain_test") == 5).sum())


def test_a_later_request_that_adds_to_the_first_gives_nothing_back(digits_case: Case) -> None:
    case = replace(
        digits_case.of(Masked(digits_case.model, [3])), later=Later((5, 6), lambda model: Masked(model, [5, 6]))
    )
    found = rebound_after_later_requests(case)
    assert {name: value.value for name, value in found.items()} == dict.fromkeys(found, 0)
    assert found["later_forget_acc"].n == int(torch.isin(case.labels("retain_test"), torch.tensor([5, 6])).sum())


def test_the_judged_model_is_not_changed_by_it(digits_case: Case) -> None:
    def spoil(model: nn.Module) -> nn.Module:
        with torch.no_grad():
            next(model.parameters()).zero_()
        return model

    before = next(digits_case.model.parameters()).clone()
    found = rebound_after_later_requests(replace(digits_case, later=Later((5,), spoil)))
    assert torch.equal(next(digits_case.model.parameters()), before)
    assert found["rebound"].value != 0


def test_later_classes_must_be_among_the_retained(digits_case: Case) -> None:
    with pytest.raises(InvalidData, match="no samples of the later classes 3"):
        rebound_after_later_requests(replace(digits_case, later=Later((3,), lambda model: model)))


def test_samples_that_are_taken_for_what_is_gone_are_counted(digits_case: Case) -> None:
    """A network that calls everything 5, once 5 is to be gone as well."""

    class Five(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.zeros(len(x), 10).index_fill(1, torch.tensor([5]), 1.0)

    case = replace(digits_case, later=Later((5,), lambda model: with_parameters(Five())))
    found = rebound_after_later_requests(case)["taken_for_gone"]
    assert found.value == 100
    assert found.n == len(case.labels("retain_test")) + len(case.labels("forget_test"))


def with_parameters(model: nn.Module) -> nn.Module:
    model.register_parameter("unused", nn.Parameter(torch.zeros(1)))
    return model
