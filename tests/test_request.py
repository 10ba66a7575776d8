"""Requests are checked against the data; every refusal gives the value and what is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from unsc.errors import InvalidData, InvalidRequest, UnscError
from unsc.request import make_request

LABELS = torch.arange(60) % 3
"""20 samples each of the classes 0, 1 and 2, for a model of 4 outputs."""


def of_class(k: int) -> list[int]:
    return torch.eq(LABELS, k).nonzero().flatten().tolist()


@pytest.mark.parametrize("classes", [[2], (2,), {2}, 2, torch.tensor([2]), torch.tensor(2), np.array([2]), np.int64(2)])
def test_classes_part_the_data(classes: Any) -> None:
    """In whatever form they are given."""
    request = make_request(LABELS, 4, classes=classes, indices=None)
    assert (request.classes, request.kind) == ((2,), "classes")
    assert request.forget.tolist() == of_class(2)
    assert request.retain.tolist() == sorted(of_class(0) + of_class(1))
    assert request.kept.tolist() == [True, True, False, True]


@pytest.mark.parametrize("indices", [[7, 0], range(0, 8, 7), torch.tensor([0, 7]), np.array([0, 7]), iter([0, 7])])
def test_indices_part_the_data(indices: Any) -> None:
    """Records of classes that stay: no class is removed."""
    request = make_request(LABELS, 4, classes=None, indices=indices)
    assert (request.classes, request.kind) == (None, "records")
    assert request.forget.tolist() == [0, 7]
    assert request.retain.tolist() == [i for i in range(60) if i not in (0, 7)]
    assert request.kept.all()


def test_the_promise_fits_the_request() -> None:
    """And neither claims what was not done."""
    whole = make_request(LABELS, 4, classes=[1], indices=None).promise("budgeted")
    records = make_request(LABELS, 4, classes=None, indices=[1]).promise("budgeted")
    assert "does not promise" in whole
    assert "more than retraining" in records
    assert "classes" in whole.split(":")[0]
    assert "Records" in records.split(":")[0]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"classes": [3]}, r"class 3; its classes are 0, 1, 2"),
        ({"classes": [1, -1]}, r"class -1; its classes are 0, 1, 2"),
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
        make_request(LABELS, 4, **({"classes": None, "indices": None} | request_))


@pytest.mark.parametrize(("labels", "named"), [([0, 1, 4, 7], "4, 7"), ([0, 1, -1, 1], "-1")])
def test_labels_outside_the_outputs_are_refused(labels: list[int], named: str) -> None:
    with pytest.raises(InvalidData, match=rf"labels {named}, but the model has 4 outputs: labels 0 to 3"):
        make_request(torch.tensor(labels), 4, classes=[0], indices=None)


def test_too_few_retained_samples_are_refused() -> None:
    """Each class that stays needs four; those that do not have them are counted."""
    labels = torch.tensor([0] * 9 + [1] * 3 + [2] * 4)
    with pytest.raises(InvalidData, match=r"class 1: 3.*at least 4"):
        make_request(labels, 3, classes=[0], indices=None)
    assert make_request(labels, 3, classes=[1], indices=None).classes == (1,)
    with pytest.raises(InvalidData, match=r"class 2: 3.*at least 4"):
        make_request(labels[(labels != 1)], 3, classes=None, indices=[12])


def test_every_error_is_one_a_user_can_catch() -> None:
    assert issubclass(InvalidRequest, UnscError)
    assert issubclass(InvalidRequest, ValueError)
    assert issubclass(InvalidData, UnscError)
