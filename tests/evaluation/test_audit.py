"""A model that somebody brings, judged: the original has not forgotten, and the controls only seem to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from unsc.bench.datasets import Split
from unsc.bench.networks import digits_cnn
from unsc.errors import InvalidData, InvalidRequest, UnscError, UnsupportedModel
from unsc.evaluation import audit as audit_module
from unsc.evaluation.audit import Audit, audit
from unsc.evaluation.shared.metrics import Measured, Value
from unsc.methods import Problem, apply, find
from unsc.storage.files import write_json

QUICK = ("retain_test_acc", "forget_test_acc", "js_forget")
CONTROLS = {"bias_shift", "head_only", "logit_mask"}


def _few(dataset: TensorDataset, each: int, classes: tuple[int, ...] = tuple(range(10))) -> Dataset:
    """Some samples of these classes."""
    labels = dataset.tensors[1]
    return Subset(dataset, [i for k in classes for i in (labels == k).nonzero().flatten()[:each].tolist()])


@pytest.fixture(scope="module")
def full(digits: Split, digits_model: nn.Module, digits_retrained: nn.Module) -> Audit:
    """The original, judged as if it had forgotten class 3, beside itself and a retrained model."""
    return audit(
        digits_model,
        digits.train,
        digits.test,
        classes=[3],
        original=digits_model,
        retrained=digits_retrained,
        names=QUICK,
    )


def test_what_has_not_forgotten_is_seen(full: Audit) -> None:
    assert full.model.values["forget_test_acc"].value > 80 and full.model.values["retain_test_acc"].value > 90
    assert full.model.values["forget_test_acc"].n + full.model.values["retain_test_acc"].n == 599
    assert full.retrained is not None and full.original is not None
    assert full.retrained.values["forget_test_acc"].value == 0
    assert "js_forget" not in full.retrained.values and full.fooled_by("js_forget") is None
    assert full.original == full.model


def test_accuracy_is_fooled_by_all_three_controls(full: Audit) -> None:
    """They change nothing but what is said of the class; so a model that passes by accuracy alone has not passed."""
    assert set(full.controls) == CONTROLS
    assert set(full.fooled_by("forget_test_acc") or ()) == CONTROLS
    assert full.fooled_by("retain_test_acc") is not None


def test_a_model_that_has_forgotten_passes(digits: Split, digits_problem: Problem, digits_retrained: nn.Module) -> None:
    """Retraining by another seed is the very thing; unsc is at 0 on forgotten samples, and near on retained ones."""
    unlearned = apply(find("unsc"), digits_problem).model
    assert unlearned is not None
    result = audit(unlearned, digits.train, digits.test, classes=[3], retrained=digits_retrained, names=QUICK)
    assert result.model.values["forget_test_acc"].value <= 5
    assert result.model.values["retain_test_acc"].value > 90


def test_without_both_models_nothing_is_said_of_fooling(digits: Split, digits_model: nn.Module) -> None:
    """And everything that needs what was not given is skipped, with the reason."""
    train, test = _few(digits.train, 12), _few(digits.test, 6)
    alone = audit(digits_model, train, test, classes=[3])
    assert alone.controls == {} and alone.retrained is None and alone.original is None
    assert all(alone.fooled_by(name) is None for name in alone.model.values)
    assert {"forget_test_acc", "retain_test_acc"} <= set(alone.model.values)
    assert "a model retrained without what was forgotten (retrained=...)" in alone.model.skipped["js_forget"]
    assert not set(alone.model.values) & set(alone.model.skipped)


def test_a_named_metric_must_be_possible(digits: Split, digits_model: nn.Module) -> None:
    train, test = _few(digits.train, 3), _few(digits.test, 3)
    with pytest.raises(InvalidRequest, match=r"the metric js_forget needs a model retrained .*\(retrained=\.\.\.\)"):
        audit(digits_model, train, test, classes=[3], names=["js_forget"])
    with pytest.raises(InvalidRequest, match="no metric 'forget_test_ac'; did you mean forget_test_acc"):
        audit(digits_model, train, test, classes=[3], names=["forget_test_ac"])


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ([], "names nothing to forget; give at least one"),
        ([10], "no class 10; its classes are 0 to 9"),
        ([-1], "no class -1; its classes are 0 to 9"),
        ([3, 12], "no class 12; its classes are 0 to 9"),
        ([3.5], "classes holds 3.5; give whole numbers"),
        (range(10), "at least one must stay"),
    ],
)
def test_unknown_classes_are_refused(digits: Split, digits_model: nn.Module, classes: list[int], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        audit(digits_model, _few(digits.train, 2), _few(digits.test, 2), classes=classes, names=QUICK[:2])


def test_unusable_data_is_named(digits: Split, digits_model: nn.Module) -> None:
    train, test = _few(digits.train, 2), _few(digits.test, 2)
    images = digits.test.tensors[0][:2]
    cases = [
        (train, Subset(digits.test, []), "the test data has no samples"),
        (Subset(digits.train, []), test, "the train data has no samples"),
        (train, _few(digits.test, 2, (3,)), "retain_test has no samples when the classes"),
        (train, _few(digits.test, 2, (1, 2)), "forget_test has no samples when the classes"),
        (_few(digits.train, 2, (1, 2)), test, "forget_train has no samples when the classes"),
        (_few(digits.train, 2, (1, 3)), test, "only one class stays in the training data"),
        (
            train,
            TensorDataset(images, torch.tensor([3, 11])),
            "retain_test holds the labels 11, but the model .* labels 0 to 9 are allowed",
        ),
        (train, TensorDataset(images, torch.tensor([3, -1])), "retain_test holds the labels -1"),
        (train, iter(DataLoader(digits.test)), "map-style"),
        (train, TensorDataset(images * torch.nan, torch.tensor([3, 1])), "NaN or Inf"),
    ]
    for of_train, of_test, said in cases:
        with pytest.raises(InvalidData, match=said):
            audit(digits_model, of_train, of_test, classes=[3], names=QUICK[:2])  # type: ignore[arg-type]


def test_unusable_models_are_refused(digits: Split, digits_model: nn.Module) -> None:
    train, test = _few(digits.train, 2), _few(digits.test, 2)
    probabilities = nn.Sequential(digits_model, nn.Softmax(dim=1))
    for model, said in ((nn.Linear(3, 10), "cannot take this data"), (probabilities, "probabilities"), (7, "is a int")):
        with pytest.raises(UnsupportedModel, match=said):
            audit(model, train, test, classes=[3], names=QUICK[:2])  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match=r"different numbers of classes.*'retrained': 9"):
        audit(digits_model, train, test, classes=[3], retrained=digits_cnn(9))


def test_the_data_may_name_classes_twice_or_in_any_order(digits: Split, digits_model: nn.Module) -> None:
    train, test = _few(digits.train, 2), _few(digits.test, 2)
    a, b = (audit(digits_model, train, test, classes=c, names=QUICK[:2]) for c in ([5, 3, 3], (3, 5)))
    one, same = (audit(digits_model, train, test, classes=c, names=QUICK[:1]).model for c in (3, [3]))
    assert one == same
    assert a.model == b.model and a.model.values["forget_test_acc"].n == 4


def test_a_model_is_left_as_it_was(digits: Split, digits_model: nn.Module) -> None:
    before = {k: v.clone() for k, v in digits_model.state_dict().items()}
    audit(digits_model, _few(digits.train, 4), _few(digits.test, 4), classes=[3], names=QUICK[:2])
    assert all(torch.equal(v, before[k]) for k, v in digits_model.state_dict().items())
    assert not digits_model.training


def test_a_control_that_the_model_does_not_allow_is_left_out(
    digits: Split, digits_model: nn.Module, digits_retrained: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = audit_module.apply

    def refuse(method, problem):
        if method.name == "head_only":
            raise UnscError("no last layer")
        return real(method, problem)

    monkeypatch.setattr(audit_module, "apply", refuse)
    train, test = _few(digits.train, 4), _few(digits.test, 4)
    result = audit(
        digits_model, train, test, classes=[3], names=QUICK[:2], original=digits_model, retrained=digits_retrained
    )
    assert set(result.controls) == CONTROLS - {"head_only"}


def test_the_bottom_line_follows_the_numbers(full: Audit) -> None:
    """By hand: what is predicted, what was kept, and what metrics say that no control fools."""
    accuracy = full.model.values["forget_test_acc"].value
    assert full.bottom_line.startswith(f"Not forgotten: {accuracy:.1f} % of 61 forgotten test samples")
    assert f"(retrained 0.0 %, original {accuracy:.1f} %)" in full.bottom_line
    assert full.bottom_line.endswith("No metric that was measured tells forgetting from hiding.")
    assert len(repr(full)) < 200 and "Not forgotten" in repr(full)
    assert full.to_dict()["bottom_line"] == full.bottom_line

    def measured(forget: float, probe: float, mia: float) -> Measured:
        values = {"forget_test_acc": forget, "probe_linear": probe, "mia_confidence": mia}
        return Measured({name: Value(v, 50) for name, v in values.items()}, {})

    original, retrained, mask = measured(90, 95, 0), measured(0, 15, 1), measured(0, 95, 0.2)
    made = Audit(measured(0, 90, 0.9), retrained, original, {"logit_mask": mask})
    assert made.bottom_line == (
        "Not predicted: 0.0 % of 50 forgotten test samples are classified correctly (retrained 0.0 %, original "
        "90.0 %). Of the metrics that no control fools, nearer to retraining: mia_confidence; nearer to the original: "
        "probe_linear."
    )
    ignorant = Audit(measured(0, 15, 1), retrained, retrained, {})
    assert "The original does not know them either, so nothing can be shown to be forgotten." in ignorant.bottom_line
    untold = Audit(measured(0, 90, 0.9), retrained, original, {})
    assert untold.bottom_line.endswith("No metric that was measured tells forgetting from hiding.")
    alone = Audit(Measured({}, {}), None, None, {})
    assert alone.bottom_line.startswith("Accuracy on what was to be forgotten was not measured. Whether")
    assert alone.bottom_line.endswith("cannot be told without original=... and retrained=....")
    for others, missing in (((None, original), "retrained"), ((retrained, None), "original")):
        half = Audit(measured(0, 90, 0.9), *others, {})
        assert half.bottom_line.endswith(f"cannot be told without {missing}=....")


def test_records(digits: Split, digits_model: nn.Module, digits_retrained: nn.Module) -> None:
    """They go from the training data; of the test data samples of their classes are set beside them."""
    labels = digits.train.tensors[1]
    records = [*(labels == 3).nonzero().flatten()[:7].tolist(), *(labels == 5).nonzero().flatten()[:2].tolist()]
    names = ("forget_train_acc", "retain_train_acc", "forget_test_acc", "retain_test_acc", "mia_confidence")
    result = audit(
        digits_model, digits.train, digits.test, indices=records, names=names, original=digits_model,
        retrained=digits_retrained,
    )  # fmt: skip
    assert result.kind == "records" and set(result.controls) == {"head_only"}  # the others hide whole classes
    found = result.model.values
    of_test = digits.test.tensors[1]
    assert [found[name].n for name in names[:4]] == [
        9, len(labels) - 9, int(((of_test == 3) | (of_test == 5)).sum()), len(of_test)
    ]  # fmt: skip
    with torch.no_grad():
        hits = digits_model(digits.train.tensors[0][records]).argmax(dim=1) == labels[records]
    assert found["forget_train_acc"].value == pytest.approx(100 * hits.float().mean().item())
    assert result.bottom_line.startswith("Of 9 records ") and "of unseen samples of their classes" in result.bottom_line


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, r"either classes=\[...\] .* or indices=\[...\]"),
        ({"classes": [3], "indices": [0]}, r"either classes=\[...\] .* or indices=\[...\]"),
        ({"indices": [0, 20, -1]}, "indices -1, 20 are out of range; the data set has samples 0 to 19"),
        ({"indices": []}, "names nothing to forget"),
        ({"indices": [1, 1]}, "names 1 more than once"),
        ({"indices": range(20)}, "retain_train has no samples when 20 records are forgotten"),
    ],
)
def test_requests_that_cannot_be_judged(digits: Split, digits_model: nn.Module, asked: dict, said: str) -> None:
    with pytest.raises(UnscError, match=said):
        audit(digits_model, _few(digits.train, 2), _few(digits.test, 2), names=QUICK[:2], **asked)


def test_it_can_be_saved(full: Audit, tmp_path: Path) -> None:
    write_json(tmp_path / "audit.json", full.to_dict())
    content = json.loads((tmp_path / "audit.json").read_text())
    assert set(content["others"]) == {"original", "retrained", *CONTROLS}
    assert set(content["fooled_by"]["forget_test_acc"]) == CONTROLS
    assert content["better"]["forget_test_acc"] == "lower"
    assert content["values"]["forget_test_acc"]["value"] == full.model.values["forget_test_acc"].value


def test_models_data_and_classes_of_any_form_are_audited(digits: Split, digits_model: nn.Module) -> None:
    """Logits in a tuple, loaders and class names give the same numbers as logits, data sets and class numbers."""

    class Tuples(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = digits_model

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, None]:
            return self.inner(x), None

    class Named(torch.utils.data.TensorDataset):
        classes = [f"digit {k}" for k in range(10)]  # noqa: RUF012

    names = ["retain_test_acc", "forget_test_acc"]
    plain = audit(digits_model, digits.train, digits.test, classes=[3], names=names)
    train, test = (torch.utils.data.DataLoader(Named(*part.tensors)) for part in (digits.train, digits.test))
    other = audit(Tuples(), train, test, classes="digit 3", names=names, logits=lambda output: output[0])
    assert {n: m.value for n, m in other.model.values.items()} == {n: m.value for n, m in plain.model.values.items()}
