"""Requests are checked against the data; every refusal gives the value and what is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from unsc.errors import InvalidData, InvalidRequest, UnscError
from unsc.request import Positions, Request, make_request, of_classes

LABELS = torch.arange(60) % 3
"""20 samples each of the classes 0, 1 and 2, for a model of 4 outputs."""


def split(labels: torch.Tensor = LABELS, outputs: int = 4, **request: Any) -> Positions:
    """A request, checked against data."""
    return make_request(outputs, **request).split(labels)


def of_class(k: int) -> list[int]:
    return torch.eq(LABELS, k).nonzero().flatten().tolist()


@pytest.mark.parametrize("classes", [[2], (2,), {2}, 2, torch.tensor([2]), torch.tensor(2), np.array([2]), np.int64(2)])
def test_classes_part_the_data(classes: Any) -> None:
    """In whatever form they are given."""
    request = make_request(4, classes=classes)
    assert (request.classes, request.kind, request.records) == ((2,), "classes", None)
    forget, retain = request.split(LABELS)
    assert forget.tolist() == of_class(2)
    assert retain.tolist() == sorted(of_class(0) + of_class(1))
    assert request.kept.tolist() == [True, True, False, True]


@pytest.mark.parametrize("indices", [[7, 0], range(0, 8, 7), torch.tensor([0, 7]), np.array([0, 7]), iter([0, 7])])
def test_indices_part_the_data(indices: Any) -> None:
    """Records of classes that stay: no class is removed."""
    request = make_request(4, indices=indices)
    assert (request.classes, request.kind, request.records) == ((), "records", (0, 7))
    forget, retain = request.split(LABELS)
    assert forget.tolist() == [0, 7]
    assert retain.tolist() == [i for i in range(60) if i not in (0, 7)]
    assert request.kept.all()


def test_removed_classes_are_those_to_forget_or_a_records_own() -> None:
    labels = torch.tensor([0, 2, 2])
    whole = Request.for_classes([2, 3], 4).removed(labels)
    assert whole.tolist() == [[False, False, True, True]] * 3
    records = Request.for_records([5], 4).removed(labels)
    assert records.tolist() == [[k == label for k in range(4)] for label in labels.tolist()]


def test_samples_of_classes_that_are_gone_neither_go_nor_stay() -> None:
    request = Request.for_classes([2], 4, gone=[0])
    forget, retain = request.split(LABELS)
    assert (forget.tolist(), retain.tolist()) == (of_class(2), of_class(1))
    with pytest.raises(InvalidRequest, match="at least one must stay"):
        Request.for_classes([2], 4, gone=[0, 1]).split(LABELS)


def test_no_class_holds_no_sample() -> None:
    assert not of_classes(LABELS, ()).any()


def test_records_that_are_not_in_a_data_set_have_no_positions() -> None:
    with pytest.raises(InvalidRequest, match="give their positions"):
        Request.for_records(None, 4).split(LABELS)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"classes": [3]}, r"no sample of class 3; its classes are 0, 1, 2"),
        ({"classes": [1, -1]}, r"no class -1; its classes are 0 to 3"),
        ({"classes": [4]}, r"no class 4; its classes are 0 to 3"),
        ({"classes": range(4)}, r"all 4 classes.*at least one must stay"),
        ({"classes": [0, 1, 2]}, r"all 3 classes.*at least one must stay"),
        ({"classes": []}, r"classes=\[\] names nothing.*at least one"),
        ({"classes": [1, 1]}, r"classes names 1 more than once; name each once"),
        ({"classes": [True]}, r"True; give whole numbers"),
        ({"classes": [1.0]}, r"1\.0; give whole numbers"),
        ({"classes": 1.5}, r"1\.5; give whole numbers"),
        ({"classes": "1"}, r"'1'; give whole numbers"),
        ({"classes": np.array([False])}, r"False; give whole numbers"),
        ({}, r"either classes=.*or indices="),
        ({"classes": [1], "indices": [1]}, r"either classes=.*or indices="),
        ({"indices": []}, r"indices=\[\] names nothing.*at least one"),
        ({"indices": [0, 60]}, r"indices 60 are out of range.*0 to 59"),
        ({"indices": [-1]}, r"indices -1 are out of range.*0 to 59"),
        ({"indices": [4, 5, 4, 5]}, r"indices names 4, 5 more than once"),
        ({"indices": [True, False]}, r"True, False; give whole numbers"),
        ({"indices": torch.tensor([True, False])}, r"True, False; give whole numbers"),
        ({"indices": ["a"]}, r"'a'; give whole numbers"),
        ({"indices": of_class(1)}, r"no sample of class 1; forget it with classes=\[1\]"),
    ],
)
def test_bad_requests_are_refused(request_: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        split(**request_)


@pytest.mark.parametrize(("labels", "named"), [([0, 1, 4, 7], "4, 7"), ([0, 1, -1, 1], "-1")])
def test_labels_outside_the_outputs_are_refused(labels: list[int], named: str) -> None:
    with pytest.raises(InvalidData, match=rf"labels {named}, but the model has 4 outputs: labels 0 to 3"):
        split(torch.tensor(labels), classes=[0])


def test_too_few_retained_samples_are_refused() -> None:
    """Each class that stays needs four; those that do not have them are counted."""
    labels = torch.tensor([0] * 9 + [1] * 3 + [2] * 4)
    with pytest.raises(InvalidData, match=r"class 1: 3.*at least 4"):
        split(labels, 3, classes=[0])
    assert split(labels, 3, classes=[1]).forget.tolist() == [9, 10, 11]
    with pytest.raises(InvalidData, match=r"class 2: 3.*at least 4"):
        split(labels[(labels != 1)], 3, indices=[12])


def test_every_error_is_one_a_user_can_catch() -> None:
    assert issubclass(InvalidRequest, UnscError)
    assert issubclass(InvalidRequest, ValueError)
    assert issubclass(InvalidData, UnscError)
