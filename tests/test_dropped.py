"""Outputs that are dropped: the rest says the same, under labels that are numbered anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from blobs import network
from safetensors.torch import save_file
from torch import nn
from torch.utils.data import TensorDataset

import unsc
from unsc.dropped import DroppedOutputs
from unsc.errors import InvalidData, InvalidRequest, UnsupportedModel
from unsc.history import gone_by
from unsc.loading.weights import filled
from unsc.request import of_classes
from unsc.result import Forgotten

KEPT = (0, 2, 4, 5)


@pytest.fixture(scope="module")
def result(model: nn.Module, points: TensorDataset) -> Forgotten:
    return unsc.forget(model, points, classes=[1, 3], drop_outputs=True)


def relabelled(data: TensorDataset, result: Forgotten) -> TensorDataset:
    """The samples that stay, with their new labels."""
    x, y = data.tensors
    stays, labels = ~of_classes(y, result.request.classes), result.label_map
    assert labels is not None
    return TensorDataset(x[stays], torch.tensor([labels[k] for k in y[stays].tolist()]))


def test_the_rest_of_the_head_is_as_it_was(result: Forgotten, model: nn.Module, points: TensorDataset) -> None:
    whole = unsc.forget(model, points, classes=[1, 3]).model
    x = points.tensors[0]
    assert result.ok and result.model(x).shape == (240, 4)
    torch.testing.assert_close(result.model(x), whole(x)[:, KEPT])
    assert result.label_map == {0: 0, 2: 1, 4: 2, 5: 3}
    assert result.gone == () and result.request.num_classes == 6


def test_new_labels_are_right(result: Forgotten, points: TensorDataset) -> None:
    data = relabelled(points, result)
    assert (result.model(data.tensors[0]).argmax(dim=1) == data.tensors[1]).float().mean() > 0.95


def test_dropping_and_restoring(model: nn.Module, points: TensorDataset) -> None:
    left = DroppedOutputs("2", KEPT, 6)
    x = points.tensors[0]
    smaller = left.drop(model)
    again = left.restored(smaller)(x)
    torch.testing.assert_close(again[:, KEPT], model(x)[:, KEPT])
    assert (again[:, [1, 3]] == -1e4).all()
    assert model(x).shape == (240, 6), "the model that was passed in stays as it is"
    assert DroppedOutputs.from_dict(json.loads(json.dumps(left.to_dict()))) == left
    assert torch.equal(left.drop(smaller)(x), smaller(x)), "what is dropped already is not dropped twice"


@pytest.mark.parametrize("outputs", [6, 4])
def test_a_saved_result_is_read_into_either_shape(
    outputs: int, result: Forgotten, points: TensorDataset, tmp_path: Path
) -> None:
    folder = result.save(tmp_path / "run")
    loaded = Forgotten.load(folder, network(outputs))
    x = points.tensors[0]
    assert torch.equal(loaded.model(x), result.model(x))
    assert loaded.label_map == result.label_map and loaded.gone == ()
    assert json.loads((folder / "config.json").read_text())["label_map"] == {"0": 0, "2": 1, "4": 2, "5": 3}
    with pytest.raises(InvalidData, match="2 has 5 outputs, where there were 6 before"):
        Forgotten.load(folder, network(5))


def test_evaluate_and_audit_speak_in_the_labels_of_the_data(result: Forgotten, points: TensorDataset) -> None:
    scores = unsc.evaluate(result, points, classes=[1, 3])
    assert scores.forget_test_acc == 0 and scores.retain_test_acc > 95
    whole = unsc.audit(result, points, points, classes=[1, 3], names=["forget_test_acc", "relearn_10"])
    assert whole.model.values["forget_test_acc"].value == 0 and "relearn_10" in whole.model.values


def test_weights_with_dropped_outputs_are_loaded_in_the_labels_of_the_data(
    result: Forgotten, points: TensorDataset, tmp_path: Path
) -> None:
    weights = result.save(tmp_path / "run") / "model.safetensors"
    model = filled(network(6), weights, name="a network")
    x = points.tensors[0]
    torch.testing.assert_close(model(x)[:, KEPT], result.model(x))
    save_file(result.model.state_dict(), tmp_path / "bare.safetensors")
    with pytest.raises(InvalidData, match="does not fit a network"):
        filled(network(6), tmp_path / "bare.safetensors", name="a network")


def test_a_later_request_goes_by_the_new_labels(result: Forgotten, points: TensorDataset) -> None:
    data = relabelled(points, result)
    later = unsc.forget(result, data, classes=[1])  # label 2 before
    assert later.request.gone == () and later.gone == (1,)
    assert [past.kept for past in later.history] == [KEPT, None]
    assert gone_by(later.history) == (1,)
    both = unsc.forget(later, data, classes=[0], drop_outputs=True)
    assert both.label_map == {2: 0, 3: 1} and both.gone == ()
    with pytest.raises(InvalidData, match="the data holds the labels 4, 5, but the model has 4 outputs"):
        unsc.forget(result, points, classes=[1])


def test_what_is_not_forgotten_keeps_its_output(model: nn.Module, points: TensorDataset) -> None:
    with pytest.warns(unsc.NotForgottenWarning):
        failed = unsc.forget(model, points, classes=[3], drop_outputs=True, budget=1e-9, max_passes=1)
    assert failed.label_map is None and failed.model(points.tensors[0]).shape == (240, 6)


def test_what_cannot_be_dropped_is_said_before_the_run(model: nn.Module, points: TensorDataset) -> None:
    with pytest.raises(InvalidRequest, match="drop_outputs has no effect for records"):
        unsc.forget(model, points, indices=[0], targets="lowered", drop_outputs=True)
    with pytest.raises(InvalidRequest, match="drop_outputs='yes'; allowed is True or False"):
        unsc.forget(model, points, classes=[3], drop_outputs="yes")
    with pytest.raises(InvalidRequest, match="would leave one output"):
        unsc.forget(model, points, classes=[0, 1, 2, 3, 4], drop_outputs=True)
    two = TensorDataset(*(t[:80] for t in points.tensors))
    one = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
    with pytest.raises(UnsupportedModel, match="needs a Linear layer that gives the logits themselves"):
        unsc.forget(one, two, classes=[1], drop_outputs=True)


def test_transformers_know_their_classes(points: TensorDataset) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    names = ["a", "b", "c", "d"]
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        id2label=dict(enumerate(names)), label2id={name: i for i, name in enumerate(names)},
    )  # fmt: skip
    bert = transformers.BertForSequenceClassification(config).eval()
    smaller: Any = DroppedOutputs("classifier", (0, 2, 3), 4).drop(bert)
    assert smaller.config.id2label == {0: "a", 1: "c", 2: "d"} and smaller.config.label2id == {"a": 0, "c": 1, "d": 2}
    assert smaller.config.num_labels == smaller.num_labels == 3 and bert.config.num_labels == bert.num_labels == 4
    ids = torch.tensor([[1, 2, 3]])
    assert torch.isfinite(smaller(ids, labels=torch.tensor([2])).loss)
    again: Any = DroppedOutputs("classifier", (0, 2, 3), 4).restored(smaller)
    assert again.num_labels == 4 and again.config.id2label == {0: "a", 2: "c", 3: "d"}
