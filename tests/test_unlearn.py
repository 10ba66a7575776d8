"""Unlearning with a null space or curvature that is at hand already."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from blobs import CLASSES, blobs, learned, network
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import unsc
from unsc.api import unlearn
from unsc.bench.datasets import Split
from unsc.errors import EmptyNullSpace, InvalidData, InvalidRequest, NotForgottenWarning


def loaders(split: Split) -> tuple[DataLoader, DataLoader, DataLoader]:
    """Forgotten samples of class 3, retained ones to fit, and other retained ones to check."""
    x, y = split.train.tensors
    gone, stays = (y == 3).nonzero().flatten(), (y != 3).nonzero().flatten()
    parts = gone, stays[200:], stays[:200]
    first, second, third = (DataLoader(TensorDataset(x[i], y[i]), batch_size=64) for i in parts)
    return first, second, third


def accuracy(model: nn.Module, split: Split) -> tuple[float, float]:
    """Of retained and of forgotten test samples."""
    x, y = split.test.tensors
    with torch.no_grad():
        right = (model(x).argmax(dim=1) == y).float()
    return right[y != 3].mean().item(), right[y == 3].mean().item()


@pytest.fixture(scope="module")
def space(digits: Split, digits_model: nn.Module) -> unsc.NullSpace:
    moments = unsc.collect_moments(digits_model, loaders(digits)[1], num_classes=10)
    return unsc.null_space(moments, retain=[k for k in range(10) if k != 3])


@pytest.fixture(scope="module")
def curvature(digits: Split, digits_model: nn.Module) -> unsc.RetainedCurvature:
    guide = unsc.forget(digits_model, digits.train, classes=[3], max_passes=1).guide
    assert isinstance(guide, unsc.RetainedCurvature)
    return guide


@pytest.mark.parametrize("kind", ["paper", "budgeted"])
def test_a_prepared_guide_forgets_a_class(
    digits: Split, digits_model: nn.Module, space: unsc.NullSpace, curvature: unsc.RetainedCurvature, kind: str
) -> None:
    """The kind of guide decides the step; the model that is passed in stays as it is."""
    forgotten, _, check = loaders(digits)
    before = copy.deepcopy(digits_model.state_dict())
    guide = space if kind == "paper" else curvature
    result = unlearn(digits_model, forgotten, guide, retained=check, forget=[3])
    assert result.options.step.name == kind
    assert result.guide is guide
    assert result.request.classes == (3,)
    assert accuracy(result.model, digits)[1] == 0
    assert accuracy(result.model, digits)[0] >= accuracy(digits_model, digits)[0] - 0.01
    assert all(torch.equal(t, before[name]) for name, t in digits_model.state_dict().items())
    assert set(result.frozen) == {f"{i}.{what}" for i in (1, 4, 8) for what in ("weight", "bias")}
    assert result.metrics.seconds > 0


def test_a_curvature_is_prepared_from_loaders(digits: Split, digits_model: nn.Module) -> None:
    """Its eigenvalues add up to the mean energy of retained rows, up to the error of drawing; steps under it forget."""
    forgotten, fitted, check = loaders(digits)
    guide = unsc.retained_curvature(digits_model, fitted, check=check, forgotten=forgotten, forget=[3])
    moments = unsc.collect_moments(digits_model, fitted, num_classes=10, samples_per_class=10**6)
    assert guide.samples == sum(moments.samples.values())
    for name, moment in moments.pooled(moments.by_class).items():
        total = guide.layers[name].values.double().sum().item()
        assert total == pytest.approx(moment.trace().sum().item() / guide.samples, rel=0.05)
    result = unlearn(digits_model, forgotten, guide, retained=check, forget=[3])
    assert result.ok and accuracy(result.model, digits)[1] == 0
    assert accuracy(result.model, digits)[0] >= accuracy(digits_model, digits)[0] - 0.01


def test_the_weights_stay_in_the_null_space(digits: Split, digits_model: nn.Module, space: unsc.NullSpace) -> None:
    """Whatever optimizer the user gives, rows of the retained basis give what they gave."""
    forgotten, _, check = loaders(digits)
    options = {"optimizer": lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.1), "max_passes": 3}
    result = unlearn(digits_model, forgotten, space, retained=check, forget=[3], **options)
    for index in (0, 3, 7, 12, 14):
        old, new = (
            (m.get_parameter(f"{index}.weight").flatten(1), m.get_parameter(f"{index}.bias"))
            for m in (digits_model, result.model)
        )
        moved = torch.cat([new[0] - old[0], (new[1] - old[1])[:, None]], dim=1).detach()
        assert moved.norm() > 1e-3
        assert (moved @ space.bases[str(index)][0]).norm() < 1e-3 * moved.norm()


def test_without_classes_the_samples_are_records(
    digits: Split, digits_model: nn.Module, curvature: unsc.RetainedCurvature
) -> None:
    """Each loses its own class, and all of them are checked."""
    x, y = digits.train.tensors
    records = DataLoader(TensorDataset(x[:12], y[:12]))
    result = unlearn(digits_model, records, curvature, retained=loaders(digits)[2], max_passes=4, targets="away")
    assert result.request.kind == "records"
    with torch.no_grad():
        right = (result.model(x[:12]).argmax(dim=1) == y[:12]).float().mean().item()
    assert result.metrics.forget_acc == pytest.approx(100 * right, abs=1e-3)


def test_records_may_have_a_null_space_each(digits: Split, digits_model: nn.Module) -> None:
    """Only the null spaces of labels that are there are used."""
    forgotten, fitted, check = loaders(digits)
    moments = unsc.collect_moments(digits_model, [*fitted, *forgotten], num_classes=10)
    bases = unsc.class_bases(moments)
    spaces = {k: bases.null_space(set(range(10)) - {k}) for k in (3, 5)}
    result = unlearn(digits_model, forgotten, spaces, retained=check, max_passes=1, least_gain=0)
    change = (result.model[14].weight - digits_model[14].weight).detach()  # type: ignore[index, operator]
    change = torch.cat([change, (result.model[14].bias - digits_model[14].bias).detach()[:, None]], dim=1)  # type: ignore[index]
    assert (change @ spaces[3].bases["14"][0]).norm() < 1e-3 * change.norm()
    assert (change @ spaces[5].bases["14"][0]).norm() > 1e-2 * change.norm()


@pytest.mark.parametrize("empty", ["forgotten", "retained"])
def test_an_empty_loader_is_refused(
    digits: Split, digits_model: nn.Module, curvature: unsc.RetainedCurvature, empty: str
) -> None:
    forgotten, _, check = loaders(digits)
    with pytest.raises(InvalidRequest, match=f"loader {empty} gave no sample"):
        unlearn(
            digits_model,
            [] if empty == "forgotten" else forgotten,
            curvature,
            retained=[] if empty == "retained" else check,
            forget=[3],
        )


@pytest.mark.parametrize("forget", [[10], [-1], range(10), []])
def test_classes_must_be_the_models_own(
    digits: Split, digits_model: nn.Module, curvature: unsc.RetainedCurvature, forget: list[int]
) -> None:
    """A class that has no output, all classes, or none."""
    forgotten, _, check = loaders(digits)
    with pytest.raises(InvalidRequest):
        unlearn(digits_model, forgotten, curvature, retained=check, forget=forget)


def test_a_guide_of_another_model_is_refused(digits: Split, curvature: unsc.RetainedCurvature) -> None:
    """The layers that it does not know are named."""
    forgotten, _, check = loaders(digits)
    other = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    with pytest.raises(InvalidRequest, match=r"does not know the layers 1; make it from this model"):
        unlearn(other, forgotten, curvature, retained=check, forget=[3])


def test_a_full_null_space_is_refused(digits: Split, digits_model: nn.Module, space: unsc.NullSpace) -> None:
    forgotten, _, check = loaders(digits)
    full = unsc.NullSpace(
        {name: torch.eye(u.shape[1])[None] for name, u in space.bases.items()},
        {name: (u.shape[1],) for name, u in space.bases.items()},
        space.retain,
    )
    with pytest.raises(EmptyNullSpace, match="budgeted"):
        unlearn(digits_model, forgotten, full, retained=check, forget=[3])


def test_unknown_options_are_refused(digits: Split, digits_model: nn.Module, curvature: unsc.RetainedCurvature) -> None:
    forgotten, _, check = loaders(digits)
    with pytest.raises(InvalidRequest, match="did you mean max_passes"):
        unlearn(digits_model, forgotten, curvature, retained=check, forget=[3], max_pases=3)


def _loader(labels: list[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.randn(len(labels), 6), torch.tensor(labels))]


@pytest.mark.parametrize(
    ("forgotten", "retained", "forget", "retain", "said"),
    [
        ([2, 2, 2, 2], [0, 1], [1], [0], "holds the classes 2"),
        ([2, 0, 2, 0], [0, 1], [2], [0, 1], "and of no other"),
        ([2, 2, 2, 2], [0, 2], [2], [0, 1], "retained holds samples of class 2"),
        ([2, 2, 2, 2], [0, 1], [2], [0, 1, 2], "null space retains class 2"),
    ],
)
def test_loaders_and_null_space_must_agree_on_what_goes(
    forgotten: list[int], retained: list[int], forget: list[int], retain: list[int], said: str
) -> None:
    """A mix-up of the parts would otherwise be reported as forgotten."""
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    moments = unsc.collect_moments(model, _loader([0, 1, 2] * 3), num_classes=3)
    space = unsc.null_space(moments, retain=retain)
    with pytest.raises(InvalidRequest, match=said):
        unsc.unlearn(model, _loader(forgotten), space, forget=forget, retained=_loader(retained))


@pytest.mark.parametrize("option", [{"step": "budgeted"}, {"energy": 0.9}, {"samples_per_class": 8}])
def test_options_that_the_guide_has_decided_are_refused(option: dict[str, Any]) -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    space = unsc.null_space(unsc.collect_moments(model, _loader([0, 1, 2] * 3), num_classes=3), retain=[0, 1])
    with pytest.raises(InvalidRequest, match=next(iter(option))):
        unsc.unlearn(model, _loader([2] * 4), space, forget=[2], retained=_loader([0, 1]), **option)


@pytest.mark.parametrize("loader", ["forgotten", "retained", "validation"])
def test_labels_without_an_output_are_refused(loader: str) -> None:
    """By the loader that has them, for records as for classes."""
    data = blobs(each=20)
    model = learned(network(), data, steps=5)
    points, labels = data.tensors
    whole = [(points, labels)]
    guide = unsc.null_space(unsc.collect_moments(model, whole, num_classes=CLASSES), retain=[1, 2, 3], energy=0.5)
    wrong = [(points, torch.where(labels == 3, 7, labels))]
    given: dict[str, Any] = {"forgotten": whole, "retained": whole, "validation": whole, loader: wrong}
    with pytest.raises(InvalidData, match=f"the loader {loader} holds the labels 7.*0 to 3 are allowed"):
        unsc.unlearn(model, guide=guide, **given)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("step", ["budgeted", "paper"])
def test_it_does_not_matter_whether_gradients_are_off(mode: Callable[[], Any], step: str) -> None:
    """A whole script may be under `no_grad`; the result is the same, and the mode is as it was."""
    data = blobs(each=20)
    model = learned(network(), data)
    options: dict[str, Any] = {"classes": [0], "step": step, "max_passes": 2} | (
        {"energy": 0.9, "merge_energy": 0.9} if step == "paper" else {}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotForgottenWarning)
        expected = unsc.forget(model, data, **options)
        with mode():
            found = unsc.forget(model, data, **options)
            assert not torch.is_grad_enabled()
    for a, b in zip(found.model.parameters(), expected.model.parameters(), strict=True):
        assert torch.equal(a, b)
