"""A masked class is gone from the predictions and not from the network."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from unsc.evaluation.representation import alignment_with_retraining, probe_recall
from unsc.evaluation.shared.case import Case
from unsc.evaluation.shared.metrics import Value, measure
from unsc.methods.logit_mask import LogitMask
from unsc.request import Request


class Deeper(nn.Module):
    """A network with one more layer in front, which does nothing."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 1, 1, bias=False)
        nn.init.ones_(self.first.weight)
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(self.first(x))


@pytest.fixture(scope="module")
def original(digits_model, digits_parts, digits_retrained) -> dict[str, Value]:
    """The probes of the original, with the retrained model's beside them."""
    return probe_recall(Case(digits_model, Request.for_classes([3], 10), digits_parts, retrained=digits_retrained))


def test_probes_see_behind_a_mask(original: dict[str, Value], digits_case: Case) -> None:
    """Its features are the original's, so its probes are too, exactly; its accuracy is 0."""
    masked = replace(digits_case, model=LogitMask(digits_case.model, [3]), retrained=None)
    assert measure(masked, ["forget_test_acc"]).values["forget_test_acc"].value == 0
    found = probe_recall(masked)
    for name in ("probe_linear", "probe_knn"):
        assert found[name].value == original[name].value > 80
        assert [row["value"] for row in found[name].detail] == [row["value"] for row in original[name].detail]
        assert [row["layer"] for row in found[name].detail] == ["model.0", "model.3", "model.7", "model.12", "model.14"]


def test_probes_find_nothing_in_features_without_information(original: dict[str, Value], digits_case: Case) -> None:
    """With its last hidden layer dead, the last features say nothing, and earlier ones as much as before."""
    dead = copy.deepcopy(digits_case.model)
    with torch.no_grad():
        dead.get_submodule("12").weight.zero_()  # type: ignore[union-attr, operator]
    found = probe_recall(replace(digits_case, model=dead, retrained=None))
    for name in ("probe_linear", "probe_knn"):
        assert found[name].value in (0, 100)  # one class for everything
        assert found[name].detail[-2]["value"] == original[name].detail[-2]["value"]


def test_details_compare_with_the_retrained_model(original: dict[str, Value], digits_case: Case) -> None:
    found = original["probe_linear"]
    alone = replace(digits_case, model=digits_case.retrained, retrained=None)
    reference = probe_recall(alone)["probe_linear"]
    assert found.value == found.detail[-1]["value"] and found.n == len(digits_case.parts["forget_test"])
    for row, other in zip(found.detail, reference.detail, strict=True):
        assert row["retrained"] == other["value"] and row["difference"] == row["value"] - other["value"]
        assert set(other) == {"layer", "value"}
    assert found.detail[0]["difference"] == 0  # the first layer sees the pictures themselves
    assert any(row["difference"] != 0 for row in found.detail)


def test_alignment_is_1_with_a_copy_and_less_with_others(digits_case: Case) -> None:
    """The floor is what two retrained models have in common; the original is not nearer on the forgotten."""
    retrained = digits_case.of(digits_case.retrained)  # type: ignore[arg-type]
    itself = alignment_with_retraining(replace(retrained, model=copy.deepcopy(retrained.model), twin=None))
    twins, original = alignment_with_retraining(retrained), alignment_with_retraining(digits_case)
    for name in ("cka_forget", "cka_retain"):
        assert [row["value"] for row in itself[name].detail["layers"]] == pytest.approx([1] * 5)
        assert original[name].detail["layers"][0]["value"] == pytest.approx(1)
        assert 0 < original[name].value < 0.95
        assert original[name].detail["floor"] == twins[name].value == twins[name].detail["floor"] < 0.95
        assert "floor" not in itself[name].detail
    assert original["cka_forget"].value < twins["cka_forget"].value


def test_networks_of_another_depth_are_compared_at_the_last_layer(digits_case: Case) -> None:
    deeper = digits_case.of(Deeper(digits_case.model))
    plain, found = alignment_with_retraining(digits_case), alignment_with_retraining(deeper)
    assert found["cka_retain"].value == pytest.approx(plain["cka_retain"].value)
    assert [row["layer"] for row in found["cka_retain"].detail["layers"]] == ["model.14"]
    few = {name: part[torch.arange(len(part)) % 4 == 0] for name, part in digits_case.parts.items()}
    probes = probe_recall(replace(deeper, parts=few))["probe_linear"]  # type: ignore[arg-type]
    assert len(probes.detail) == 6 and "retrained" not in probes.detail[0]
