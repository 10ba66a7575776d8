"""The budgeted step: what it spends, and that a wrong prediction cannot ruin a network."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.api import forget
from unsc.batches import Batch, as_batch
from unsc.bench.datasets import Split
from unsc.layers import find_layers
from unsc.request import Request
from unsc.steps.budgeted import BudgetedStep, forget_gradients
from unsc.steps.curvature import LayerCurvature, RetainedCurvature
from unsc.steps.factors import dense, dot
from unsc.targets import pseudo_labels
from unsc.watch import Watch

BUDGET = 1e-4
KEPT = torch.arange(10) != 3


@pytest.fixture(scope="module")
def curvature(digits: Split, digits_model: nn.Module) -> RetainedCurvature:
    """Of a short run."""
    guide = forget(digits_model, digits.train, classes=[3], max_passes=1).guide
    assert isinstance(guide, RetainedCurvature)
    return guide


def parts(split: Split, model: nn.Module) -> tuple[Batch, Tensor, Watch]:
    """Forgotten samples, their targets, and a watch over retained test samples."""
    images, labels = split.train.tensors
    batch = Batch(images[labels == 3][:64], labels[labels == 3][:64])
    x, y = split.test.tensors
    watch = Watch(model, [Batch(x[y != 3][:128], y[y != 3][:128])], KEPT, quick=128)
    with torch.no_grad():
        targets = pseudo_labels(model(batch.inputs), Request(10, (3,)).removed(batch.labels))
    return batch, targets, watch


def scaled(curvature: RetainedCurvature, factor: float) -> RetainedCurvature:
    return replace(
        curvature, layers={n: replace(m, sensitivity=factor * m.sensitivity) for n, m in curvature.layers.items()}
    )


def retained_accuracy(model: nn.Module, split: Split) -> float:
    x, y = split.test.tensors
    with torch.no_grad():
        return (model(x).argmax(dim=1) == y)[y != 3].float().mean().item()


def test_gradients_are_those_of_the_divergence_from_the_targets(digits: Split, digits_model: nn.Module) -> None:
    """The loss is the mean KL in nats, which is cross-entropy up to a constant."""
    batch, targets, _ = parts(digits, digits_model)
    model = copy.deepcopy(digits_model)
    layers = find_layers(model).layers
    loss, gradients = forget_gradients(model, layers, batch, targets)
    entropy = -torch.special.xlogy(targets, targets).sum(dim=1).mean()
    expected = F.cross_entropy(model(batch.inputs), targets)
    assert loss == pytest.approx((expected - entropy).item(), rel=1e-4)
    expected.backward()
    named = {name: p.grad for name, p in model.named_parameters()}
    for layer in layers:
        torch.testing.assert_close(gradients[layer.name], layer.matrix(named), atol=1e-5, rtol=1e-3)  # type: ignore[arg-type]


@pytest.mark.parametrize("factor", [1.0, 1e-6])
def test_no_step_moves_retained_predictions_beyond_its_bound(
    digits: Split, digits_model: nn.Module, curvature: RetainedCurvature, factor: float
) -> None:
    """The root of the measured KL grows by at most twice the root of the budget, however wrong the curvature is."""
    batch, targets, watch = parts(digits, digits_model)
    model = copy.deepcopy(digits_model)
    step = BudgetedStep(model, find_layers(model).layers, scaled(curvature, factor), watch, budget=BUDGET)
    loss, length = forget_gradients(model, step.layers, batch, targets)[0], 0.0
    for _ in range(10):
        step(batch, targets)
        now = math.sqrt(watch.kl(model))
        assert now <= length + 2 * math.sqrt(BUDGET) + 1e-6
        length = now
    assert length > 0
    assert forget_gradients(model, step.layers, batch, targets)[0] < loss


def test_a_step_far_off_its_prediction_is_taken_back(
    digits: Split, digits_model: nn.Module, curvature: RetainedCurvature
) -> None:
    """Where nothing measures how layers add up, the look after each step alone holds a wrong curvature to its bound."""
    batch, targets, watch = parts(digits, digits_model)
    model = copy.deepcopy(digits_model)
    step = BudgetedStep(model, find_layers(model).layers, scaled(curvature, 1e-6), watch, budget=BUDGET)
    step._next_measurement = 1 << 30
    step(batch, targets)
    assert step.taken_back > 0
    assert 0 < math.sqrt(watch.kl(model)) <= 2 * math.sqrt(BUDGET) + 1e-6


@pytest.mark.parametrize("factor", [1e-6, 1e3])
def test_a_wrong_curvature_is_put_right(
    digits: Split, digits_model: nn.Module, curvature: RetainedCurvature, factor: float
) -> None:
    """With sensitivities a million times too small the unchecked step ruins the network. How layers really add up is
    measured, so that any factor leads to the same weights."""
    batch, targets, watch = parts(digits, digits_model)
    wrong = scaled(curvature, factor)
    layers = find_layers(digits_model).layers
    after = []
    for guide in (curvature, wrong):
        model = copy.deepcopy(digits_model)
        step = BudgetedStep(model, layers, guide, watch, budget=BUDGET)
        for _ in range(5):
            step(batch, targets)
        assert step.taken_back <= 1
        after.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    start = torch.cat([p.detach().flatten() for p in digits_model.parameters()])
    right, found = (a - start for a in after)
    assert (found - right).norm() < 0.1 * right.norm()


def test_a_step_as_long_as_a_wrong_curvature_says_ruins_the_network(
    digits: Split, digits_model: nn.Module, curvature: RetainedCurvature
) -> None:
    """What the measurement saves from: the same step, unchecked."""
    batch, targets, _ = parts(digits, digits_model)
    wrong, ruined = scaled(curvature, 1e-6), copy.deepcopy(digits_model)
    layers = find_layers(ruined).layers
    _, gradients = forget_gradients(ruined, layers, batch, targets)
    steps = {name: wrong.layers[name].solve(dense(g)) for name, g in gradients.items()}
    length = math.sqrt(2 * BUDGET / sum(dot(gradients[n], s) for n, s in steps.items()))
    named = dict(ruined.named_parameters())
    for layer in layers:
        layer.write(layer.matrix(named) - length * steps[layer.name], named)
    assert retained_accuracy(ruined, digits) < retained_accuracy(digits_model, digits) - 0.2


def simple(bias: float = 0.0) -> tuple[nn.Linear, RetainedCurvature, Watch]:
    """A linear model of 4 classes that finds all equally likely, with an exact curvature of standard normal rows."""
    model = nn.Linear(3, 4)
    nn.init.zeros_(model.weight)
    nn.init.constant_(model.bias, bias)
    layer = LayerCurvature(torch.ones(1, 4), torch.eye(4)[None], 0.25, 0.01)
    x = torch.randn(256, 3, generator=torch.Generator().manual_seed(0))
    watch = Watch(model, [Batch(x, torch.zeros(256, dtype=torch.long))], torch.ones(4, dtype=torch.bool))
    return model, RetainedCurvature({find_layers(model).layers[0].name: layer}, 256), watch


def test_a_zero_gradient_does_nothing() -> None:
    """Targets that the network gives already leave every weight as it is."""
    model, curvature, watch = simple()
    before = copy.deepcopy(model.state_dict())
    step = BudgetedStep(model, find_layers(model).layers, curvature, watch, budget=BUDGET)
    step(Batch(torch.randn(5, 3), torch.zeros(5, dtype=torch.long)), torch.full((5, 4), 0.25))
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    assert step.taken_back == 0


@pytest.mark.parametrize("seed", range(8))
def test_targets_that_are_almost_reached_are_not_overshot(seed: int) -> None:
    """Where the loss is nothing but rounding, and may even be negative, no budget is spent on it."""
    model, curvature, watch = simple()
    torch.manual_seed(seed)
    nn.init.normal_(model.weight)
    batch = Batch(torch.randn(5, 3), torch.zeros(5, dtype=torch.long))
    with torch.no_grad():
        targets = model(batch.inputs).softmax(dim=1)
    watch = Watch(model, watch.batches, torch.ones(4, dtype=torch.bool))
    step = BudgetedStep(model, find_layers(model).layers, curvature, watch, budget=BUDGET)
    step(batch, targets)
    assert watch.kl(model) <= 2e-6


def test_a_single_step_spends_the_predicted_budget() -> None:
    """With an exact curvature and far targets, the measured KL is the budget within a factor of 2, at the first try."""
    model, curvature, watch = simple()
    step = BudgetedStep(model, find_layers(model).layers, curvature, watch, budget=BUDGET)
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(5))
    step(Batch(x, torch.zeros(64, dtype=torch.long)), torch.eye(4)[torch.arange(64) % 3])
    assert step.taken_back == 0
    assert BUDGET / 2 < watch.kl(model) < 2 * BUDGET


def test_a_step_that_cannot_be_made_short_enough_is_undone() -> None:
    """If the network breaks at any length, the weights are what they were."""

    class Alarm(Watch):
        def divergence(self, before: Tensor, after: Tensor) -> float:
            return math.nan

    model, curvature, watch = simple()
    alarm = Alarm(model, watch.batches, torch.ones(4, dtype=torch.bool))
    before = copy.deepcopy(model.state_dict())
    step = BudgetedStep(model, find_layers(model).layers, curvature, alarm, budget=BUDGET)
    step(Batch(torch.randn(8, 3), torch.zeros(8, dtype=torch.long)), torch.eye(4)[[1] * 8])
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    assert step.taken_back > 0


def test_the_bound_is_on_a_step_not_on_their_sum() -> None:
    """Ten steps the same way add up their lengths: the KL is far beyond what one step may add."""
    model, curvature, watch = simple()
    step = BudgetedStep(model, find_layers(model).layers, curvature, watch, budget=BUDGET)
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(5))
    for _ in range(10):
        step(Batch(x, torch.zeros(64, dtype=torch.long)), torch.eye(4)[torch.arange(64) % 3])
    assert step.taken_back == 0
    assert 25 * BUDGET < watch.kl(model) < 200 * BUDGET


def test_what_steps_spent_is_what_the_watch_sees(
    digits: Split, digits_model: nn.Module, curvature: RetainedCurvature
) -> None:
    """The total after each step is the divergence from the original, no step plans for more than its budget, and every
    layer that moved has spent something."""
    batch, targets, watch = parts(digits, digits_model)
    model = copy.deepcopy(digits_model)
    step = BudgetedStep(model, find_layers(model).layers, curvature, watch, budget=BUDGET)
    for n in range(1, 5):
        step(batch, targets)
        assert len(step.spent) == step.spent[-1].step == n
        assert step.spent[-1].total == pytest.approx(watch.kl(model), rel=1e-3)
        assert step.spent[-1].predicted <= BUDGET * (1 + 1e-6)
    assert step.spent[0].measured == pytest.approx(step.spent[0].total)
    before, after = dict(digits_model.named_parameters()), dict(model.named_parameters())
    for layer in step.layers:
        moved = not torch.equal(layer.matrix(before), layer.matrix(after))
        assert moved == (step.spent_by_layer[layer.name] > 0)


def test_gradients_of_many_samples_are_those_of_all_at_once(digits: Split, digits_model: nn.Module) -> None:
    """Though no more than 128 are in a pass; the last part is a smaller one."""
    layers = find_layers(digits_model).layers
    batch = as_batch(digits.train[:300])
    targets = torch.rand(300, 10, generator=torch.Generator().manual_seed(0)).softmax(dim=1)
    whole, many = (forget_gradients(digits_model, layers, batch, targets, at_once=n) for n in (300, 128))
    assert many[0] == pytest.approx(whole[0], rel=1e-4)
    for name, gradient in whole[1].items():
        torch.testing.assert_close(dense(many[1][name]), dense(gradient), atol=1e-5, rtol=1e-3)


def test_where_no_effect_shows_steps_go_by_the_curvature() -> None:
    """Predictions that no rounding is left in say nothing of what layers do together, and are no reason to fail."""
    model, curvature, watch = simple()
    with torch.no_grad():
        model.weight.copy_(1e9 * torch.eye(4)[:, :3])
    watch = Watch(model, watch.batches, torch.ones(4, dtype=torch.bool))
    before = model.weight.clone()
    step = BudgetedStep(model, find_layers(model).layers, curvature, watch, budget=BUDGET)
    step(Batch(torch.ones(5, 3), torch.zeros(5, dtype=torch.long)), torch.eye(4)[[3] * 5])
    assert torch.isfinite(model.weight).all()
    assert not torch.equal(model.weight, before)
