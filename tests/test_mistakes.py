"""Mistakes of users that no other test is about: each ends with an error that names the value and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
from blobs import CLASSES, blobs, learned, network
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import unsc
from unsc.errors import InvalidData, InvalidRequest, UnscError, UnsupportedModel

DATA = blobs(each=20)
INPUTS, LABELS = DATA.tensors
LOADER = DataLoader(DATA, 40)
NARROW = TensorDataset(INPUTS[:, :5], LABELS)
"""Samples that the network does not take."""
TAKES = r"\(4, 5\) float32; give samples in the form it was trained on"


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return learned(network(), DATA)


@pytest.fixture(scope="module")
def guide(model: nn.Module) -> unsc.NullSpace:
    return unsc.null_space(unsc.collect_moments(model, LOADER, num_classes=CLASSES), retain=[1, 2, 3], energy=0.5)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"classes": torch.tensor([[1, 2]])}, r"classes holds tensor\(\[1, 2\]\); give whole numbers"),
        ({"indices": np.array([[1, 2]])}, r"indices holds array\(\[1, 2\]\); give whole numbers"),
        ({"classes": [1], "gone": torch.tensor([[2, 3]])}, r"gone holds tensor\(\[2, 3\]\); give whole numbers"),
        ({"indices": [1, 25], "new_labels": [2, 1]}, "new_labels give the samples 25 the labels that the data gives"),
        ({"indices": [1], "validation": NARROW}, f"cannot take the validation data.*{TAKES}"),
        ({"classes": [1], "labels": ["a"] * 80}, r"labels=\['a', .*; give one whole number for each of 80 samples"),
        ({"classes": [1], "labels": [None] * 80}, r"labels=\[None, .*; give one whole number for each of 80"),
        ({"classes": [1], "labels": 5}, "labels=5; give one whole number for each of 80 samples"),
        ({"classes": [1], "labels": LABELS > 1}, "type torch.bool; give one whole number for each of 80 samples"),
        ({"classes": [1], "progress": "yes"}, "progress='yes'; allowed is True, False, or a function"),
        ({"classes": [1], "parameters": 3}, "parameters=3; allowed is names"),
        ({"classes": [1], "parameters": [LABELS]}, r"parameters=\[tensor.*; allowed is names"),
    ],
)
def test_a_wrong_argument_is_named(model: nn.Module, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UnscError, match=f"(?s){said}"):
        unsc.forget(model, DATA, **wrong)


@pytest.mark.parametrize("data", ["a/folder", b"bytes", 5, None])
def test_what_is_no_data_is_named(model: nn.Module, guide: unsc.NullSpace, data: Any) -> None:
    """Text too, which has a length and parts."""
    said = f"the data is a {type(data).__name__}; give a map-style data set"
    with pytest.raises(InvalidData, match=said):
        unsc.forget(model, data, classes=[1])
    with pytest.raises(InvalidData, match=said):
        unsc.unlearn(model, LOADER, guide, retained=data)


@pytest.mark.parametrize("name", ["forgotten", "retained", "validation"])
def test_a_loader_of_what_the_model_does_not_take_is_named(model: nn.Module, guide: unsc.NullSpace, name: str) -> None:
    given: dict[str, Any] = {"forgotten": DATA, "retained": DATA, "validation": DATA, name: NARROW}
    what = "this data" if name == "retained" else f"the samples of the loader {name}"
    with pytest.raises(UnsupportedModel, match=f"cannot take {what} .*{TAKES}"):
        unsc.unlearn(model, guide=guide, **given)


@pytest.mark.parametrize("name", ["retained", "forgotten"])
def test_a_curvature_is_made_from_what_the_model_takes(model: nn.Module, name: str) -> None:
    given: dict[str, Any] = {"retained": DATA, "check": DATA, "forgotten": DATA, name: NARROW}
    with pytest.raises(UnsupportedModel, match=f"the samples of the loader {name} .*{TAKES}"):
        unsc.retained_curvature(model, **given)
    given[name] = TensorDataset(INPUTS, LABELS + 1)
    with pytest.raises(InvalidData, match=f"the loader {name} holds the labels 4, but the model has 4 outputs"):
        unsc.retained_curvature(model, **given)


@pytest.mark.parametrize(("spaces", "held"), [({}, "nothing"), ({0: "space", 1: None}, "str, NoneType")])
def test_a_dict_that_is_no_guide_is_named(model: nn.Module, spaces: dict[int, Any], held: str) -> None:
    with pytest.raises(InvalidRequest, match=f"the guide is a dict of {held}; give a NullSpace for each label"):
        unsc.unlearn(model, LOADER, spaces, retained=LOADER)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"num_classes": "4"}, "num_classes='4'"), ({"num_classes": 4, "samples_per_class": 0}, "samples_per_class=0")],
)
def test_moments_need_whole_numbers(model: nn.Module, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{said}; allowed is a whole number of at least 1"):
        unsc.collect_moments(model, LOADER, **wrong)


def test_moments_are_of_what_the_model_takes(model: nn.Module) -> None:
    with pytest.raises(UnsupportedModel, match=f"cannot take the samples of the loader .*{TAKES}"):
        unsc.collect_moments(model, DataLoader(NARROW, 40), num_classes=CLASSES)


@pytest.mark.parametrize(
    ("test", "classes", "said"),
    [
        (NARROW, [1], f"cannot take the .*{TAKES}"),
        (TensorDataset(INPUTS, LABELS + 1), [1], "test holds the labels 4, but the model has 4 outputs: labels 0 to 3"),
        (DATA, torch.tensor([[1, 2]]), r"classes holds tensor\(\[1, 2\]\); give whole numbers"),
    ],
)
def test_wrong_test_data_is_not_judged(
    model: nn.Module, test: TensorDataset, classes: Iterable[int], said: str
) -> None:
    """A label without an output would count as one that the model gets wrong."""
    with pytest.raises(UnscError, match=said):
        unsc.evaluate(model, test, classes=classes)
    with pytest.raises(UnscError, match=said):
        unsc.audit(model, DATA, test, classes=classes, names=["forget_test_acc"])


def test_weights_that_are_not_loaded_are_named(model: nn.Module) -> None:
    with torch.device("meta"):
        empty = network()
    with pytest.raises(UnsupportedModel, match=r"0\.weight, .* are on the meta device.*; load the weights first"):
        unsc.forget(empty, DATA, classes=[1])


def test_labels_of_before_outputs_were_dropped_are_told(model: nn.Module) -> None:
    """Even if the result was of another request since then."""
    smaller = unsc.forget(model, DATA, classes=[1], drop_outputs=True)
    said = "labels 3, but the model has 3 outputs.*new numbers: give the data those of the former result's label_map"
    with pytest.raises(InvalidData, match=said):
        unsc.forget(smaller, DATA, classes=[2])


def test_numbers_of_numpy_are_taken(model: nn.Module) -> None:
    """For options as for classes, and they are saved as plain ones."""
    result = unsc.forget(model, DATA, classes=np.array([1]), seed=np.int64(3), max_kl=np.float32(0.5), max_passes=1)
    assert (type(result.options.seed), type(result.options.max_kl)) == (int, float)


def test_a_copy_may_have_the_new_label_of_its_record(model: nn.Module) -> None:
    """Nobody named it: only records must not have the labels that they are to have."""
    twice = TensorDataset(torch.cat([INPUTS, INPUTS[:1]]), torch.cat([LABELS, LABELS[25:26]]))
    options: dict[str, Any] = {"copies": "include", "max_passes": 1, "least_gain": 0.0}
    with pytest.warns(unsc.NotForgottenWarning):
        result = unsc.forget(model, twice, indices=[0], new_labels=[1], **options)
    assert result.request.records == (0, 80) and result.request.new_labels == (1, 1)
