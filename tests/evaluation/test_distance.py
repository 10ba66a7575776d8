"""Distances from a retrained model: SciPy, identities, cases by hand."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from scipy.spatial.distance import jensenshannon
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.errors import UnsupportedModel
from unsc.evaluation.distance import counterpart, distances_to_retraining, js_distance, tug_of_war
from unsc.evaluation.shared.case import Case
from unsc.evaluation.shared.metrics import measure
from unsc.request import Request


def test_js_distance_is_scipys() -> None:
    generator = torch.Generator().manual_seed(0)
    p, q = torch.randn(2, 50, 7, generator=generator, dtype=torch.float64) * 3
    expected = jensenshannon(p.softmax(dim=1).numpy().T, q.softmax(dim=1).numpy().T, base=2)
    torch.testing.assert_close(js_distance(p, q), torch.from_numpy(expected))


def test_js_distance_runs_from_0_to_1() -> None:
    """1 for predictions without a class in common, even where a score is minus infinity."""
    p = torch.tensor([[0.0, -torch.inf], [0.0, -1e4], [1.0, 2.0]], dtype=torch.float64)
    q = torch.tensor([[-torch.inf, 0.0], [-1e4, 0.0], [1.0, 2.0]], dtype=torch.float64)
    assert js_distance(p, q).tolist() == pytest.approx([1, 1, 0])
    with pytest.raises(UnsupportedModel, match="NaN"):
        js_distance(p, q * torch.nan)


def test_tug_of_war_by_hand() -> None:
    assert tug_of_war([0.0, 0.0, 0.0]) == 1.0
    assert tug_of_war([0.5, -0.2, 0.1]) == pytest.approx(0.5 * 0.8 * 0.9)
    assert tug_of_war([0.0, 1.0, 0.0]) == 0.0


def test_the_retrained_model_is_not_compared_with_itself(digits_case: Case) -> None:
    """Without a twin its distances are not known, and all that needs none is measured."""
    case = replace(digits_case.of(digits_case.retrained), twin=None)  # type: ignore[arg-type]
    names = ("js_forget", "agreement_retain", "tug_of_war", "retain_gap", "cka_forget")
    measured = measure(case, ("retain_test_acc", *names))
    assert list(measured.values) == ["retain_test_acc"] and set(measured.skipped) == set(names)
    assert all("give a second retrained model (twin=...)" in reason for reason in measured.skipped.values())


def test_a_model_is_no_distance_from_its_copy(digits_case: Case) -> None:
    case = replace(digits_case.of(copy.deepcopy(digits_case.retrained)), twin=None)  # type: ignore[arg-type]
    found = {name: v.value for name, v in distances_to_retraining(case).items()}
    assert found["js_forget"] == found["js_retain"] == 0
    assert found["agreement_forget"] == found["agreement_retain"] == 100
    assert found["tug_of_war"] == 1
    assert all(v.detail is None for v in distances_to_retraining(case).values())


def test_the_floor_is_the_retrained_model_against_its_twin(digits_case: Case) -> None:
    """The original is farther away than two retrained models are from each other, most of all on the forgotten."""
    original = distances_to_retraining(digits_case)
    retrained = distances_to_retraining(digits_case.of(digits_case.retrained))  # type: ignore[arg-type]
    for name, value in original.items():
        assert value.detail == {"floor": retrained[name].value}
    assert original["js_forget"].value > 0.8 > original["js_forget"].detail["floor"] > 0
    agreement = original["agreement_forget"]  # its interval, since processors that round otherwise train other networks
    assert agreement.high < agreement.detail["floor"]  # type: ignore[operator]
    assert original["tug_of_war"].value < 0.1 < 0.9 < original["tug_of_war"].detail["floor"]
    js = original["js_retain"]
    assert js.n == len(digits_case.parts["retain_test"]) and js.low < js.value < js.high  # type: ignore[operator]


def test_the_counterpart_of_the_retrained_model_is_its_twin(digits_case: Case, digits_twin: nn.Module) -> None:
    assert counterpart(digits_case) is digits_case.retrained
    assert counterpart(digits_case.of(digits_case.retrained)) is digits_twin  # type: ignore[arg-type]


class Chosen(nn.Module):
    """Gives one column of its input as the class."""

    def __init__(self, column: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.column = column

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * torch.eye(3)[x[:, self.column].long()]


def test_tug_of_war_is_over_training_samples_and_retained_test_samples() -> None:
    """Two models, whose answers are the columns: they differ by 1/2, 1/4 and 1/5 there, and by 1 on `forget_test`."""

    def part(mine: list[int], theirs: list[int], truth: int) -> Batch:
        return Batch(torch.tensor([mine, theirs]).T.float(), torch.full((len(mine),), truth))

    parts = {
        "forget_train": part([2, 2], [2, 0], 2),
        "retain_train": part([0, 1, 1, 1], [0, 0, 1, 1], 0),
        "forget_test": part([2, 2, 2], [0, 0, 0], 2),
        "retain_test": part([0, 0, 0, 1, 2], [0, 1, 0, 1, 1], 0),
    }
    case = Case(Chosen(0), Request.for_classes([2], 3), parts, retrained=Chosen(1))  # type: ignore[arg-type]
    found = distances_to_retraining(case)
    assert found["tug_of_war"].value == pytest.approx(1 / 2 * 3 / 4 * 4 / 5)
    assert found["agreement_forget"].value == 0 and found["agreement_retain"].value == pytest.approx(60)
    assert found["js_forget"].n == 3
