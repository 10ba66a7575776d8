"""Requests one after the other: what was forgotten stays forgotten, also when its data is gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from blobs import CLASSES, network
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import unsc
from unsc.batches import as_batch
from unsc.bench.datasets import Split
from unsc.errors import InvalidRequest
from unsc.request import Request, of_classes
from unsc.result import Forgotten
from unsc.steps.curvature import RetainedCurvature
from unsc.task import without


@pytest.fixture(scope="module")
def first(model: nn.Module, points: TensorDataset) -> Forgotten:
    return unsc.forget(model, points, classes=[3])


def left(data: TensorDataset, *gone: int) -> TensorDataset:
    x, y = data.tensors
    return TensorDataset(x[~of_classes(y, gone)], y[~of_classes(y, gone)])


def predicted(model: nn.Module, data: TensorDataset) -> Tensor:
    with torch.no_grad():
        return model(data.tensors[0]).argmax(dim=1)


def test_a_class_that_is_gone_is_no_target_and_is_watched() -> None:
    request = Request.for_classes([1], CLASSES, gone=[3])
    assert request.removed(torch.tensor([1])).tolist() == [[False, True, False, True]]
    assert request.stays.tolist() == [True, False, True, False]
    assert request.kept.tolist() == [True, False, True, True]  # a rise of its output is a change that counts
    records = Request.for_records([0], CLASSES, gone=[3])
    assert records.removed(torch.tensor([1])).tolist() == [[False, True, False, True]]


def test_targets_without_some_classes_are_distributions() -> None:
    targets = torch.tensor([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
    assert torch.allclose(without(targets, [2]), torch.tensor([[0.4, 0.6, 0.0], [0.0, 1.0, 0.0]]))
    assert without(targets, []) is targets


def test_a_class_does_not_come_back(digits: Split, digits_model: nn.Module) -> None:
    """Three requests, each class's data deleted: hardly any test sample is taken for one of them in the end."""
    order = (3, 8, 9)
    result: Forgotten | None = None
    for i, k in enumerate(order):
        data = left(digits.train, *order[:i])
        result = unsc.forget(digits_model if result is None else result, data, classes=[k])
    assert result is not None and result.gone == (3, 8, 9)
    assert of_classes(predicted(result.model, digits.test), order).double().mean() <= 0.01
    assert result.metrics.gone_mass is not None and result.metrics.gone_mass < 0.01


def test_a_result_and_a_bare_model_with_the_same_gone_classes_give_the_same_weights(
    first: Forgotten, points: TensorDataset
) -> None:
    data = left(points, 3)
    by_result = unsc.forget(first, data, classes=[1])
    by_hand = unsc.forget(first.model, data, classes=[1], gone=[3])
    for one, other in zip(by_result.model.parameters(), by_hand.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert by_result.request == by_hand.request
    assert [past.classes for past in by_result.history] == [(3,), (1,)]
    assert [past.classes for past in by_hand.history] == [(1,)] and by_hand.gone == (1, 3)


def test_samples_of_gone_classes_neither_go_nor_stay(first: Forgotten, points: TensorDataset) -> None:
    """That they are still there makes no difference, but for the order in which samples are drawn."""
    positions = Request.for_classes([1], 6, gone=[3]).split(points.tensors[1])
    assert not set(points.tensors[1][torch.cat(positions)].tolist()) & {3}
    result = unsc.forget(first, points, classes=[1])
    assert result.ok and result.gone == (1, 3)


def test_records_after_classes(first: Forgotten, points: TensorDataset) -> None:
    result = unsc.forget(first, points, indices=[0, 50, 100], targets="lowered")
    assert result.request.gone == (3,) and result.gone == (3,)
    assert [(past.classes, past.records) for past in result.history] == [((3,), 0), ((), 3)]
    gone = predicted(result.model, points) == 3
    assert not gone.any()
    with pytest.raises(InvalidRequest, match="records of class 3, which is forgotten already"):
        unsc.forget(first, points, indices=[0, 130], targets="lowered")


def test_the_history_travels_with_what_is_saved(first: Forgotten, points: TensorDataset, tmp_path: Path) -> None:
    second = unsc.forget(first, left(points, 3), classes=[1], budget=1e-3)
    saved = json.loads((second.save(tmp_path / "run") / "config.json").read_text())
    assert [(past["classes"], past["status"]) for past in saved["history"]] == [([3], "forgotten"), ([1], "forgotten")]
    assert [past["options"]["budget"] for past in saved["history"]] == [4e-4, 1e-3]
    assert all(past["when"].endswith("+00:00") for past in saved["history"])
    loaded = Forgotten.load(tmp_path / "run", network(6))
    assert loaded.gone == second.gone == (1, 3)
    assert [past.when for past in loaded.history] == [past.when for past in second.history]
    third = unsc.forget(loaded, left(points, 1, 3), classes=[0])
    assert third.gone == (0, 1, 3) and not of_classes(predicted(third.model, points), third.gone).any()


def test_what_was_not_forgotten_may_be_asked_again(model: nn.Module, points: TensorDataset) -> None:
    with pytest.warns(unsc.NotForgottenWarning):
        failed = unsc.forget(model, points, classes=[3], budget=1e-9, max_passes=1)
    assert failed.gone == ()
    again = unsc.forget(failed, points, classes=[3])
    assert again.gone == (3,)
    later = unsc.forget(failed, left(points, 3), classes=[1])  # its samples are deleted: it is to be gone, not to stay
    assert later.request.gone == (3,) and not of_classes(predicted(later.model, points), (1, 3)).any()
    with pytest.raises(InvalidRequest, match="class 3 is forgotten already"):
        unsc.forget(again, points, classes=[3])


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ([9], "the model has no class 9"),
        ([0, 1, 2, 4, 5], "all 6 classes would be forgotten"),
        (["a"], "'a'"),
        ([True], "gone holds True"),
    ],
)
def test_gone_classes_are_checked(model: nn.Module, points: TensorDataset, gone: list[object], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        unsc.forget(model, points, classes=[3], gone=gone)  # type: ignore[arg-type]


def test_unlearn_takes_a_former_result(first: Forgotten, points: TensorDataset) -> None:
    data = left(points, 3)
    goes = data.tensors[1] == 1
    x, y = data.tensors
    guide = unsc.forget(first, data, classes=[1]).guide
    assert isinstance(guide, RetainedCurvature)
    retained = [as_batch((x[~goes], y[~goes])), as_batch((points.tensors[0][120:160], points.tensors[1][120:160]))]
    pairs = [(batch.inputs, batch.labels) for batch in retained]
    result = unsc.unlearn(first, [(x[goes], y[goes])], guide, retained=pairs, forget=[1])
    assert result.gone == (1, 3) and not of_classes(predicted(result.model, points), (1, 3)).any()
    with pytest.raises(InvalidRequest, match="samples of classes that are gone alone"):
        unsc.unlearn(first, [(x[goes], y[goes])], guide, retained=pairs[1:], forget=[1])
