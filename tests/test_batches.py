"""Collated samples in every accepted form become batches; everything else is refused with a reason."""

from __future__ import annotations

from collections import UserDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unsc.batches import Batch, as_batch, join
from unsc.errors import InvalidData


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def tensors_of(inputs: Any) -> list[Tensor]:
    if isinstance(inputs, Tensor):
        return [inputs]
    return list(inputs.values()) if isinstance(inputs, dict) else list(inputs)


X, Y = torch.randn(4, 3), torch.tensor([2, 0, 1, 0])


@pytest.mark.parametrize("labels", [Y, Y.int(), Y.to(torch.uint8), Y.tolist()])
def test_a_pair_is_inputs_and_labels(labels: Any) -> None:
    """Labels of any integer type become int64; a batch passes through unchanged."""
    batch = as_batch((X, labels))
    assert torch.equal(batch.inputs, X)
    assert torch.equal(batch.labels, Y)
    assert batch.labels.dtype == torch.int64
    assert as_batch(batch) is batch


def test_several_inputs_come_before_the_label() -> None:
    """The last part is the label, all others are inputs by position."""
    other = torch.randn(4, 2)
    batch = as_batch([X, other, Y])
    assert isinstance(batch.inputs, tuple)
    assert all(torch.equal(a, b) for a, b in zip(batch.inputs, (X, other), strict=True))
    assert torch.equal(batch.labels, Y)


@pytest.mark.parametrize("key", ["labels", "label", "y", "target"])
@pytest.mark.parametrize("mapping", [dict, UserDict])
def test_a_dict_has_a_known_label_key(key: str, mapping: type) -> None:
    """Usual label keys are found in any mapping, and all other keys are inputs."""
    batch = as_batch(mapping({"pixels": X, key: Y}))
    assert batch.inputs.keys() == {"pixels"}
    assert torch.equal(batch.labels, Y)


def test_a_label_key_can_be_named() -> None:
    """A named key wins over the usual ones, which then are inputs."""
    batch = as_batch({"x": X, "labels": X, "kind": Y}, label_key="kind")
    assert batch.inputs.keys() == {"x", "labels"}
    assert torch.equal(batch.labels, Y)


@pytest.mark.parametrize(
    ("collated", "label_key", "named"),
    [
        ({"pixels": X, "kind": Y}, None, ["pixels", "kind", "label_key"]),
        ({"pixels": X, "label": Y}, "kind", ["pixels", "label", "kind"]),
        (X, None, ["Tensor"]),
        ((X,), None, ["tuple"]),
        ("abc", None, ["str"]),
        ((X, Y.float()), None, ["float32", "integer"]),
        ((X, Y.bool()), None, ["bool"]),
        ((X, Y.to(torch.complex64)), None, ["complex64"]),
        ((X, Y[:, None]), None, ["(4, 1)"]),
        ((X, torch.tensor(1)), None, ["DataLoader"]),
        ((X.clone().index_fill(1, torch.tensor(1), float("nan")), Y), None, ["NaN"]),
        (((X, X / 0.0, Y)), None, ["Inf"]),
        ({"x": X * float("inf"), "y": Y}, None, ["Inf"]),
    ],
)
def test_unusable_data_is_refused_with_its_reason(collated: Any, label_key: str | None, named: list[str]) -> None:
    """The message names what was found and what to give instead."""
    with pytest.raises(InvalidData) as caught:
        as_batch(collated, label_key=label_key)
    assert all(word in str(caught.value) for word in named)


def test_large_numbers_are_inputs() -> None:
    """Though their sum is infinite."""
    large = torch.full((4, 3), 3e38)
    assert torch.equal(as_batch((large, Y)).inputs, large)


def test_token_numbers_are_inputs() -> None:
    """Token numbers are accepted as inputs as they are."""
    tokens = torch.randint(9, (4, 5))
    assert torch.equal(as_batch((tokens, Y)).inputs, tokens)


@pytest.mark.parametrize("inputs", [X, (X, X + 1), {"a": X, "b": X + 1}], ids=["tensor", "tuple", "dict"])
def test_joining_the_parts_of_a_batch_gives_it_back(inputs: Any) -> None:
    """Selecting by mask or by positions keeps inputs and labels together; joining inverts the selection."""
    batch = Batch(inputs, Y)
    joined = join([batch[torch.tensor([0, 1])], batch[torch.tensor([False, False, True, True])]])
    assert len(joined) == 4
    assert torch.equal(joined.labels, Y)
    for ours, theirs in zip(tensors_of(joined.inputs), tensors_of(inputs), strict=True):
        assert torch.equal(ours, theirs)


def test_a_batch_takes_the_models_precision() -> None:
    """Floating point inputs follow the model; token numbers keep their type."""
    model = nn.Linear(3, 2).double()
    batch = Batch({"x": X, "tokens": Y}, Y).for_model(model)
    assert batch.inputs["x"].dtype == torch.float64
    assert batch.inputs["tokens"].dtype == torch.int64
