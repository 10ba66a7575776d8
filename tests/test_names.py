"""Classes by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from blobs import blobs, learned, network
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

import unsc
from unsc.errors import InvalidData, InvalidRequest
from unsc.names import numbered

NAMES = ["bird", "boat", "bat", "cat"]


class Named(Dataset[Any]):
    """The blobs, with whatever says what their classes are called; counts what is read of it."""

    def __init__(self, **attributes: Any) -> None:
        self.inside, self.read = blobs(), 0
        for name, value in attributes.items():
            setattr(self, name, value)

    def __len__(self) -> int:
        return len(self.inside)

    def __getitem__(self, i: int) -> Any:
        self.read += 1
        return self.inside[i]


def configured(names: list[str]) -> nn.Module:
    model = network()
    model.config = SimpleNamespace(id2label=dict(enumerate(names)))  # type: ignore[assignment]
    return model


@pytest.mark.parametrize(
    "data",
    [
        Named(classes=NAMES),
        Named(classes=tuple(NAMES)),
        Named(class_to_idx={name: i for i, name in enumerate(NAMES)}),
        Named(features={"label": SimpleNamespace(names=NAMES)}),
        Subset(Subset(Named(classes=NAMES), range(50)), range(4)),
        ConcatDataset([Named(classes=NAMES), Named(classes=NAMES)]),
        DataLoader(Named(classes=NAMES)),
    ],
    ids=["classes", "tuple", "class_to_idx", "ClassLabel", "subset", "concatenation", "loader"],
)
def test_data_names_its_classes(data: Any) -> None:
    """A name alone is one class; numbers stay as they are."""
    assert numbered("cat", model=network(), data=[data]) == [3]
    assert numbered(["cat", 0, "boat"], model=network(), data=[data]) == [3, 0, 1]


def test_a_model_names_its_classes() -> None:
    assert numbered("cat", model=nn.DataParallel(configured(NAMES))) == [3]


@pytest.mark.parametrize("classes", [3, [3], (3,), {3}, range(3, 4), torch.tensor([3]), torch.tensor(3)])
def test_numbers_need_no_names(classes: Any) -> None:
    found = numbered(classes, model=network(), data=[Named()])
    assert [int(k) for k in found] == [3]  # type: ignore[call-overload]


def test_unknown_names_suggest_near_ones() -> None:
    with pytest.raises(InvalidRequest, match=r"no class 'boot'; did you mean boat\?"):
        numbered("boot", model=network(), data=[Named(classes=NAMES)])
    with pytest.raises(InvalidRequest, match=r"'cat' is a name, but neither.*give numbers"):
        numbered("cat", model=network(), data=[Named()])


def test_names_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"'cat' has the numbers \[0, 3\]"):
        numbered("cat", model=configured(NAMES[::-1]), data=[Named(classes=NAMES)])


def test_a_class_is_forgotten_and_evaluated_by_name() -> None:
    data, model = Named(classes=NAMES), learned(network(), blobs())
    result = unsc.forget(model, data, classes="cat")
    assert result.ok
    assert result.request.classes == (3,)
    assert unsc.evaluate(result.model, data, classes="cat").forget_test_acc == 0


@pytest.mark.parametrize("wrong", [{"classes": "dog"}, {"classes": [9]}, {"indices": [160]}, {}])
def test_the_request_is_checked_before_the_data_is_read(wrong: dict[str, Any]) -> None:
    """A few samples tell how many classes the model knows; labels are not looked for."""
    data = Named(classes=NAMES)
    with pytest.raises(InvalidRequest):
        unsc.forget(network(), data, **wrong)
    assert data.read <= 4


@pytest.mark.parametrize("step", ["budgeted", "paper"])
def test_a_small_class_is_a_risk_that_can_be_taken(step: str) -> None:
    """Three samples are refused with the option that allows them; two are enough to run."""
    model, few = learned(network(), blobs()), [*range(40, 160), 0, 1]
    data = Subset(blobs(), few)
    with pytest.raises(InvalidData, match=r"class 0: 2.*at least 4.*min_retained=2.*may suffer unnoticed"):
        unsc.forget(model, data, classes=[3], step=step)
    assert unsc.forget(model, data, classes=[3], step=step, min_retained=2, max_passes=1).options.min_retained == 2
    with pytest.raises(InvalidRequest, match="min_retained=1; allowed is a whole number of at least 2"):
        unsc.forget(model, data, classes=[3], min_retained=1)
