"""What a report shows of networks, against scikit-learn and plain counting."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sklearn.metrics import auc, roc_auc_score
from torch import nn

from unsc.batches import as_batch
from unsc.bench.datasets import Split
from unsc.evaluation.side_by_side import Network, Part, side_by_side
from unsc.features import layer_inputs
from unsc.methods.logit_mask import LogitMask
from unsc.request import Request

REQUEST = Request.for_classes([3], 10)


def shown(digits: Split, model: nn.Module, other: nn.Module, *, data: str = "test data") -> dict:
    labels = digits.train.tensors[1]
    return side_by_side(
        [Network("original", "Original", "original", model), Network("result", "Result", "result", other, 1.5, 0.25)],
        REQUEST,
        test=Part.some(digits.test, digits.test.tensors[1]),
        data=data,  # type: ignore[arg-type]
        forgotten=Part.some(digits.train, labels, (labels == 3).nonzero().flatten()),
    )


@pytest.fixture(scope="module")
def found(digits: Split, digits_model: nn.Module, digits_retrained: nn.Module) -> dict:
    return shown(digits, digits_model, digits_retrained)


def test_counts_are_those_of_the_predictions(digits: Split, digits_model: nn.Module, found: dict) -> None:
    images, labels = digits.test.tensors
    with torch.no_grad():
        predicted = digits_model(images).argmax(dim=1)
    for one in found["networks"][0]["classes"]:
        own = labels == one["class"]
        assert (one["hits"], one["samples"]) == (int((predicted[own] == one["class"]).sum()), int(own.sum()))
    went = found["networks"][0]["went"]
    assert went["to"] == [int((predicted[labels == 3] == k).sum()) for k in range(10)]
    assert went["samples"] == int((labels == 3).sum()) and went["known"] == went["to"][3]
    assert found["networks"][1]["seconds"] == 1.5 and found["networks"][1]["drift"] == 0.25


def test_the_curve_is_that_of_an_attack_on_the_loss(digits: Split, digits_model: nn.Module, found: dict) -> None:
    """Its area by scikit-learn from the losses themselves, and by trapezoids from the points that are kept."""
    losses = []
    for images, labels in (digits.train.tensors, digits.test.tensors):
        with torch.no_grad():
            losses.append(
                nn.functional.cross_entropy(digits_model(images).double(), labels, reduction="none")[labels == 3]
            )
    truth = np.concatenate([np.ones(len(losses[0])), np.zeros(len(losses[1]))])
    curve = found["networks"][0]["membership"]
    assert curve["auc"] == pytest.approx(roc_auc_score(truth, -torch.cat(losses).numpy()))
    assert auc(curve["fpr"], curve["tpr"]) == pytest.approx(curve["auc"], abs=0.01)
    assert (curve["fpr"][0], curve["tpr"][0], curve["fpr"][-1], curve["tpr"][-1]) == (0, 0, 1, 1)


def test_the_map_is_the_plane_of_principal_components(digits: Split, digits_model: nn.Module, found: dict) -> None:
    """Its axes are uncorrelated, the first spreads most; samples of the class that goes come first."""
    labels = np.array(found["map"]["labels"])
    goes = digits.test.tensors[1] == 3
    assert (labels[: int(goes.sum())] == 3).all() and not (labels[int(goes.sum()) :] == 3).any()
    images = as_batch((digits.test.tensors[0][goes], digits.test.tensors[1][goes]))
    features = list(layer_inputs(digits_model, images).values())[-1].numpy()
    places = np.array(found["map"]["before"])
    # A projection brings no two samples further apart.
    flat = np.linalg.norm(places[0] - places[1])
    assert flat <= np.linalg.norm(features[0] - features[1]) + 1e-3
    assert abs(np.corrcoef(places.T)[0, 1]) < 1e-3 and places[:, 0].var() >= places[:, 1].var()
    assert found["map"]["share"][0] >= found["map"]["share"][1]


def test_a_network_that_did_not_change_stays_where_it_was(digits: Split, digits_model: nn.Module) -> None:
    """A mask of the logits leaves the features alone, whatever it does to the answers."""
    found = shown(digits, digits_model, LogitMask(digits_model, [3]))
    assert found["map"]["before"] == found["map"]["after"]
    assert found["networks"][1]["went"]["known"] == 0


def test_training_data_is_no_reference_for_membership(digits: Split, digits_model: nn.Module) -> None:
    found = shown(digits, digits_model, digits_model, data="training data")
    assert all(one["membership"] is None for one in found["networks"])
    assert "not trained on" in found["missing"]["membership"]


def test_all_of_it_is_plain(found: dict) -> None:
    assert json.loads(json.dumps(found)) == found


def test_large_data_is_looked_at_in_part() -> None:
    labels = torch.arange(100) % 7
    part = Part.some([], labels, most=10)  # type: ignore[arg-type]
    assert len(part) == 10 and torch.equal(part.labels, labels[part.positions])
    assert torch.equal(part.positions, part.positions.unique())
