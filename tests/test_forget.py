"""The one call, end to end, on digits: what is forgotten, what stays, and what is refused."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

import unsc
from unsc.bench.datasets import Split, load
from unsc.bench.networks import digits_mlp
from unsc.bench.train import fit
from unsc.errors import InvalidData, InvalidRequest, UnsupportedModel
from unsc.evaluation import Evaluation
from unsc.result import Forgotten
from unsc.steps.subspace import NullSpaces

STEPS = ["budgeted", "paper"]
METRICS = {
    "passes",
    "steps",
    "seconds",
    "drift",
    "drift_max",
    "predicted_kl",
    "retained_kl",
    "forget_acc",
    "stopped",
    "promise",
}


def evaluated(model: nn.Module, split: Split, classes: tuple[int, ...]) -> Evaluation:
    """On test samples, of which no run sees any."""
    x, y = split.test.tensors
    gone = torch.isin(y, torch.tensor(classes))
    return unsc.evaluate(
        model, retain_test=TensorDataset(x[~gone], y[~gone]), forget_test=TensorDataset(x[gone], y[gone])
    )


def same_weights(a: nn.Module, b: nn.Module) -> bool:
    first, second = a.state_dict(), b.state_dict()
    return first.keys() == second.keys() and all(torch.equal(t, second[name]) for name, t in first.items())


@pytest.fixture(scope="module")
def whole_class(digits: Split, digits_model: nn.Module) -> Forgotten:
    return unsc.forget(digits_model, digits.train, classes=[3])


def some_records(split: Split, classes: tuple[int, ...] = (1, 4, 7), each: int = 4) -> list[int]:
    labels = split.train.tensors[1]
    return [i for k in classes for i in (labels == k).nonzero().flatten()[:each].tolist()]


@pytest.mark.parametrize("step", STEPS)
def test_the_memory_layout_of_weights_does_not_matter(digits: Split, digits_model: nn.Module, step: str) -> None:
    other = copy.deepcopy(digits_model).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = digits.test.tensors[0]
    first, second = (
        unsc.forget(m, digits.train, classes=[3], step=step, max_passes=1).model(images).softmax(1)
        for m in (digits_model, other)
    )
    torch.testing.assert_close(first, second, atol=1e-3, rtol=0)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("classes", [(3,), (0, 8)])
def test_whole_classes_are_forgotten(
    digits: Split, digits_model: nn.Module, step: str, classes: tuple[int, ...]
) -> None:
    """No test sample of theirs is recognised; all others lose at most a point."""
    result = unsc.forget(digits_model, digits.train, classes=classes, step=step)
    before, after = (evaluated(m, digits, classes) for m in (digits_model, result.model))
    assert before.forget_test_acc > 80
    assert after.forget_test_acc == 0
    assert after.retain_test_acc >= before.retain_test_acc - 1
    assert result.metrics.forget_acc == 0
    assert result.metrics.request == "classes"
    assert result.metrics.stopped in ("forgotten", "passes")


@pytest.mark.parametrize("step", STEPS)
def test_records_of_several_classes_are_moved(digits: Split, digits_model: nn.Module, step: str) -> None:
    """Fewer of them are classified as their label; test samples of all other classes stay as they are."""
    indices = some_records(digits)
    x, y = digits.train.tensors[0][indices], digits.train.tensors[1][indices]
    targets = {"budgeted": "soft", "paper": "hard"}[step]
    result = unsc.forget(digits_model, digits.train, indices=indices, step=step, targets=targets)
    with torch.no_grad():
        before, after = ((m(x).argmax(dim=1) == y).float().mean().item() * 100 for m in (digits_model, result.model))
    assert before > 90
    assert after < before - 20
    assert result.metrics.forget_acc == pytest.approx(after, abs=1e-4)
    assert result.metrics.request == "records"
    first, last = (evaluated(m, digits, (1, 4, 7)) for m in (digits_model, result.model))
    assert last.retain_test_acc >= first.retain_test_acc - 2
    if step == "budgeted":  # the paper's step does not protect the records' own classes
        assert last.forget_test_acc >= first.forget_test_acc - 6
        assert isinstance(result.guide, unsc.RetainedCurvature)
    else:
        assert isinstance(result.guide, NullSpaces)
        assert set(result.guide) == {1, 4, 7}
        assert {k: set(range(10)) - set(space.retain) for k, space in result.guide.items()} == {1: {1}, 4: {4}, 7: {7}}


@pytest.mark.parametrize("training", [True, False])
def test_the_users_model_is_left_alone(digits: Split, digits_model: nn.Module, training: bool) -> None:
    """Weights, buffers, gradients, modes and hooks; the result is another module in the same modes."""
    model = copy.deepcopy(digits_model).train(training)
    model.get_submodule("4").train(not training)
    before = copy.deepcopy(model)
    result = unsc.forget(model, digits.train, classes=[3], max_passes=1)
    assert same_weights(model, before)
    assert all(p.grad is None for p in model.parameters())
    assert not any(m._forward_hooks for m in [*model.modules(), *result.model.modules()])
    modes = [m.training for m in before.modules()]
    assert [m.training for m in model.modules()] == modes
    assert [m.training for m in result.model.modules()] == modes
    assert not same_weights(result.model, before)
    assert {p.data_ptr() for p in model.parameters()}.isdisjoint(p.data_ptr() for p in result.model.parameters())


def test_frozen_parameters_are_named_and_do_not_move(digits_model: nn.Module, whole_class: Forgotten) -> None:
    """Batch norm's, with the reason; its running statistics do not move either."""
    norms = {f"{i}.{what}" for i in (1, 4, 8) for what in ("weight", "bias")}
    assert set(whole_class.frozen) == norms
    assert all("BatchNorm2d" in why for why in whole_class.frozen.values())
    before, after = digits_model.state_dict(), whole_class.model.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {f"{i}.{what}" for i in (0, 3, 7, 12, 14) for what in ("weight", "bias")}


def test_requested_parameters_alone_move(digits: Split, digits_model: nn.Module) -> None:
    """The last layer's weight, without its bias; all others are said not to be requested."""
    result = unsc.forget(digits_model, digits.train, classes=[3], parameters=("14.weight",), max_passes=2)
    before, after = digits_model.state_dict(), result.model.state_dict()
    assert {name for name in before if not torch.equal(before[name], after[name])} == {"14.weight"}
    assert result.frozen["12.weight"] == "not requested"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("step", STEPS)
def test_the_models_precision_is_kept(digits: Split, digits_model: nn.Module, dtype: torch.dtype, step: str) -> None:
    """A bfloat16 or float64 model comes back as such, and has forgotten."""
    model = copy.deepcopy(digits_model).to(dtype)
    result = unsc.forget(model, digits.train, classes=[3], step=step)
    assert {p.dtype for p in result.model.parameters()} == {dtype}
    before, after = (evaluated(m, digits, (3,)) for m in (model, result.model))
    assert after.forget_test_acc == 0
    assert after.retain_test_acc >= before.retain_test_acc - 1.5


@pytest.mark.parametrize("step", STEPS)
def test_a_seed_decides_everything(digits: Split, digits_model: nn.Module, step: str) -> None:
    """Two runs give equal weights whatever the global generator does, which they leave alone; another seed does not."""
    results = []
    for i, seed in enumerate((5, 5, 6)):
        torch.manual_seed(i)
        state = torch.random.get_rng_state()
        results.append(unsc.forget(digits_model, digits.train, classes=[3], step=step, seed=seed, max_passes=1).model)
        assert torch.equal(state, torch.random.get_rng_state())
    assert same_weights(results[0], results[1])
    assert not same_weights(results[0], results[2])


class Dicts(Dataset):
    """The digits as dicts with the label under another name."""

    def __init__(self, split: Split) -> None:
        self.images, self.labels = split.train.tensors

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {"pixels": self.images[i], "digit": int(self.labels[i])}


class Named(nn.Module):
    """Takes its input by name and gives its logits in a dict."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, pixels: Tensor) -> dict[str, Tensor]:
        return {"logits": self.inner(pixels)}


def test_dict_data_gives_the_same_result(digits: Split, digits_model: nn.Module) -> None:
    """As the same samples in pairs."""
    named = Named(copy.deepcopy(digits_model))
    result = unsc.forget(named, Dicts(digits), classes=[3], label_key="digit", max_passes=1)
    plain = unsc.forget(digits_model, digits.train, classes=[3], max_passes=1)
    assert same_weights(result.model.inner, plain.model)  # type: ignore[arg-type]


@pytest.mark.parametrize("step", STEPS)
def test_metrics_are_measured_on_the_result(digits: Split, digits_model: nn.Module, step: str) -> None:
    """All are there and finite; steps fit passes; only the paper's step predicts no change at all."""
    result = unsc.forget(digits_model, digits.train, classes=[3], step=step, batch_size=20, max_passes=3)
    m = result.metrics
    assert m.to_dict().keys() >= METRICS
    assert set(m.drift) == {"0", "3", "7", "12", "14"}
    assert m.drift_max == max(m.drift.values())
    assert all(math.isfinite(v) and v > 0 for v in (m.seconds, m.retained_kl, m.drift_max))
    assert (m.predicted_kl > 0) == (step == "budgeted")
    assert m.steps <= 3 * math.ceil(m.steps / m.passes)
    assert m.history[-1].steps == m.steps
    assert m.retained_kl < (0.1 if step == "budgeted" else 1)
    assert len(m.promise) > 50
    assert result.options.max_passes == 3
    assert result.request.classes == (3,)
    json.dumps(m.to_dict())


def test_a_bound_on_the_divergence_is_kept(digits: Split, digits_model: nn.Module) -> None:
    """The paper's step at a ruinous learning rate is stopped, says so, and does not ruin the network."""
    result = unsc.forget(digits_model, digits.train, classes=[3], step="paper", lr=50.0)
    assert result.metrics.stopped in ("kl", "nan")
    after = evaluated(result.model, digits, (3,)).retain_test_acc
    assert after >= evaluated(digits_model, digits, (3,)).retain_test_acc - 2


def test_an_under_sampled_wide_network_does_not_collapse(digits: Split) -> None:
    """1,025 columns and 45 retained samples: far more directions look free than are."""
    torch.manual_seed(0)
    images, labels = digits.train.tensors
    model = fit(digits_mlp(1024), images, labels, epochs=5, lr=0.05)
    result = unsc.forget(model, digits.train, classes=[3], samples_per_class=5)
    before, after = (evaluated(m, digits, (3,)) for m in (model, result.model))
    assert before.retain_test_acc > 90
    assert after.retain_test_acc >= before.retain_test_acc - 2
    assert after.forget_test_acc < 10


def test_on_a_gpu(digits: Split, digits_model: nn.Module) -> None:
    """Data on the CPU, model on the GPU: the result is on the GPU and has forgotten."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    for step in STEPS:
        result = unsc.forget(copy.deepcopy(digits_model).cuda(), digits.train, classes=[3], step=step)
        assert {p.device.type for p in result.model.parameters()} == {"cuda"}
        assert evaluated(result.model.cpu(), digits, (3,)).forget_test_acc == 0


def test_a_result_is_saved_whole(
    tmp_path: Path, digits: Split, digits_model: nn.Module, whole_class: Forgotten
) -> None:
    """Three files, and nothing beside them; the state gives the same logits, the numbers the same metrics."""
    folder = whole_class.save(tmp_path / "new" / "result")
    assert sorted(p.name for p in folder.iterdir()) == ["config.json", "metrics.json", "model.safetensors"]
    assert [p.name for p in folder.parent.iterdir()] == ["result"]
    back = copy.deepcopy(digits_model)
    back.load_state_dict(load_file(folder / "model.safetensors"))
    x = digits.test.tensors[0]
    with torch.no_grad():
        assert torch.equal(back(x), whole_class.model(x))
        assert not torch.equal(back(x), digits_model(x))
    metrics, config = (json.loads((folder / f"{n}.json").read_text()) for n in ("metrics", "config"))
    assert metrics.keys() >= METRICS
    assert metrics["frozen"] == whole_class.frozen
    assert metrics["drift"] == whole_class.metrics.drift
    assert (config["classes"], config["indices"]) == ([3], None)
    assert config["options"] == json.loads(json.dumps(whole_class.options.to_dict()))
    assert config["versions"]["unsc"] == unsc.__version__


def test_a_folder_that_holds_something_is_not_touched(tmp_path: Path, whole_class: Forgotten) -> None:
    """An error that names it, and all that was there still is; an empty folder is used."""
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(InvalidRequest, match=r"exists already; name a new folder"):
        whole_class.save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["precious.txt"]
    assert (tmp_path / "precious.txt").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert (whole_class.save(tmp_path / "empty") / "model.safetensors").exists()


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return self.last(torch.relu(self.second(torch.relu(self.first(x)))))


def test_tied_weights_stay_tied_and_can_be_saved(tmp_path: Path, digits: Split) -> None:
    """The result is tied as the model was, and its state loads back to the same logits."""
    torch.manual_seed(0)
    images, labels = digits.train.tensors
    model = fit(Tied(), images, labels, epochs=3)
    result = unsc.forget(model, digits.train, classes=[3], max_passes=1)
    assert result.model.first.weight is result.model.second.weight  # type: ignore[union-attr]
    folder = result.save(tmp_path / "tied")
    back = Tied().eval()
    back.load_state_dict(load_file(folder / "model.safetensors"))
    with torch.no_grad():
        assert torch.equal(back(images), result.model(images))


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"classes": [10]}, r"class 10; its classes are 0 to 9"),
        ({}, r"either classes=.*or indices="),
        ({"classes": range(10)}, r"all 10 classes"),
        ({"indices": [5000]}, r"5000.*0 to 1197"),
        ({"classes": [3], "stpe": "paper"}, r"no option 'stpe'; did you mean step\?"),
        ({"classes": [3], "step": "fast"}, r"step='fast'; allowed is 'budgeted' or 'paper'"),
        ({"classes": [3], "step": "paper", "energy": 1.5}, r"energy=1\.5.*above 0 and at most 1"),
        ({"classes": [3], "parameters": ("1.weight",)}, r"1\.weight: BatchNorm2d"),
    ],
)
def test_bad_requests_are_refused(
    digits: Split, digits_model: nn.Module, request_: dict[str, Any], message: str
) -> None:
    """The same checks as for the parts, through the one call."""
    with pytest.raises(InvalidRequest, match=message):
        unsc.forget(digits_model, digits.train, **request_)


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (nn.Softmax(dim=1), "returns probabilities.*return the logits"),
        (nn.Unflatten(1, (2, 5)), r"shape \(4, 2, 5\).*must return logits"),
    ],
)
def test_what_is_no_classifier_is_refused(
    digits: Split, digits_model: nn.Module, last: nn.Module, message: str
) -> None:
    """Probabilities, a wrong shape."""
    with pytest.raises(UnsupportedModel, match=message):
        unsc.forget(nn.Sequential(copy.deepcopy(digits_model), last), digits.train, classes=[3])


def test_too_few_outputs_for_the_labels_are_refused(digits: Split) -> None:
    with pytest.raises(InvalidData, match=r"labels 7, 8, 9, but the model has 7 outputs: labels 0 to 6"):
        unsc.forget(nn.Sequential(nn.Flatten(), nn.Linear(64, 7)), digits.train, classes=[3])


def test_nan_is_refused(digits: Split, digits_model: nn.Module) -> None:
    """In a weight, which is named, and in the data."""
    broken = copy.deepcopy(digits_model)
    with torch.no_grad():
        broken.get_parameter("7.weight")[0, 0, 0, 0] = math.nan
    with pytest.raises(UnsupportedModel, match=r"NaN or Inf in 7\.weight"):
        unsc.forget(broken, digits.train, classes=[3])
    images, labels = digits.train.tensors
    images = images.clone()
    images[labels == 5] = math.nan
    with pytest.raises(InvalidData, match="inputs hold NaN or Inf"):
        unsc.forget(digits_model, TensorDataset(images, labels), classes=[3])


def test_a_full_network_has_no_null_space(digits: Split, digits_model: nn.Module) -> None:
    """With all energy kept on 256 samples a class, every layer is full; the message leads to the other step."""
    narrow = nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16, 10))
    with pytest.raises(unsc.EmptyNullSpace, match=r"\(2\).*step=\"budgeted\""):
        unsc.forget(narrow, digits.train, classes=[3], step="paper", energy=1.0, merge_energy=1.0)


def test_one_of_two_classes_can_be_forgotten() -> None:
    """A binary classifier is left with one class, and still has retained predictions to watch."""
    images, labels = load("digits").train.tensors
    pair = TensorDataset(images[labels < 2], labels[labels < 2])
    torch.manual_seed(0)
    model = fit(nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 2)), *pair.tensors, epochs=5)
    result = unsc.forget(model, pair, classes=[1])
    assert result.metrics.forget_acc == 0
    predicted = result.model(pair.tensors[0]).argmax(dim=1)
    assert (predicted == 0).double().mean() > 0.95
    assert 0 < result.metrics.retained_kl <= result.options.max_kl


@pytest.mark.parametrize(
    ("model", "data", "said"),
    [
        (None, "loader", "SubsetRandomSampler.*Subset"),
        (None, "tensors", r"TensorDataset\(x, y\)"),
        (None, "generator", "generator; give a map-style"),
        (None, "strings", "'3'"),
        (None, "shape", "one argument, .4, 1, 8, 3. float32"),
        (None, "names", "none of the columns x, label: its forward has input"),
        ({"weight": torch.ones(2)}, "good", "dict; give a torch.nn.Module"),
    ],
)
def test_the_wrong_kind_of_thing_is_named(model: Any, data: str, said: str) -> None:
    """No traceback from inside for a model or data set of another kind."""
    x, y = torch.randn(40, 1, 8, 8), torch.arange(40) % 4
    good = TensorDataset(x, y)
    given: dict[str, Any] = {
        "good": good,
        "loader": torch.utils.data.DataLoader(good, 8, sampler=torch.utils.data.SubsetRandomSampler(range(20))),
        "tensors": (x, y),
        "generator": (pair for pair in good),
        "strings": [(image, "3") for image in x],
        "shape": TensorDataset(x[..., :3], y),
        "names": [{"x": image, "label": 1} for image in x],
    }
    own = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
    with pytest.raises((InvalidData, UnsupportedModel), match=said):
        unsc.forget(own if model is None else model, given[data], classes=[1])


@pytest.mark.parametrize("option", [{"lr": 0.1}, {"energy": 0.9}, {"step": "paper", "budget": 1e-3}])
def test_an_option_without_effect_is_refused(option: dict[str, Any]) -> None:
    data = TensorDataset(torch.randn(40, 64), torch.arange(40) % 4)
    with pytest.raises(InvalidRequest, match="has no effect"):
        unsc.forget(nn.Linear(64, 4), data, classes=[1], **option)
