"""How many samples the curvature is estimated from, and that few of them say what all do."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.errors import InvalidData
from unsc.models import editable_layers
from unsc.request import Request
from unsc.steps.budgeted import forget_gradients
from unsc.steps.estimate import EVERYTHING, SPARING, estimate, in_turn
from unsc.steps.factors import Matrix
from unsc.targets import Soft, pseudo_labels
from unsc.task import RetainFit, Samples, Task, make_aims
from unsc.watch import Watch

CLASSES = 5


def samples(n: int, columns: int, seed: int, spread: float = 0.0) -> Batch:
    """Gaussian inputs whose columns have sizes from 10**spread down to 1."""
    g = torch.Generator().manual_seed(seed)
    inputs = torch.randn(n, columns, generator=g) * torch.logspace(spread, 0, columns)
    return Batch(inputs, torch.randint(1, CLASSES, (n,), generator=g))


def task_of(columns: int = 6, fit: int = 600, hidden: int = 8, spread: float = 0.0) -> tuple[Task, dict[str, Matrix]]:
    """A perceptron whose class 0 is to be forgotten, and the gradients of the forget loss."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(columns, hidden), nn.Tanh(), nn.Linear(hidden, CLASSES)).eval()
    with torch.no_grad():
        model.get_parameter("0.weight").div_(torch.logspace(spread, 0, columns))
    gone = replace(samples(32, columns, 7, spread), labels=torch.zeros(32, dtype=torch.long))
    request, check = Request(CLASSES, (0,)), [samples(64, columns, s, spread) for s in range(20, 28)]
    layers, _ = editable_layers(model, gone)
    retain = RetainFit.from_batch(samples(fit, columns, 1, spread))
    watch = Watch(model, check, request.kept)
    parts = Samples(gone, gone, retain, check)
    task = Task(model, layers, request, parts, watch, make_aims(model, request, parts, Soft()), 0, 1 << 20)
    with torch.no_grad():
        targets = pseudo_labels(model(gone.inputs), request.removed(gone.labels))
    return task, forget_gradients(model, layers, gone, targets)[1]


def test_classes_take_turns() -> None:
    """Every position comes once, with its label, and any beginning holds classes evenly while they last."""
    positions = {4: torch.arange(10), 7: torch.arange(10, 13), 9: torch.arange(20, 26)}
    order, labels = in_turn(positions, torch.Generator().manual_seed(0))
    assert sorted(order.tolist()) == sorted(torch.cat(list(positions.values())).tolist())
    assert all(p in positions[k].tolist() for p, k in zip(order.tolist(), labels.tolist(), strict=True))
    for n in range(1, 10):
        counts = [(labels[:n] == k).sum().item() for k in positions]
        assert max(counts) - min(counts) <= 1
    assert in_turn({}, torch.Generator())[0].shape == (0,)


def counted(task: Task) -> list[int]:
    """How many samples to fit are read, from now on."""
    seen = [0]

    def read(chosen: Tensor) -> Batch:
        seen[0] += len(chosen)
        return original(chosen)

    original = task.samples.retain_fit.read
    object.__setattr__(task.samples.retain_fit, "read", read)
    return seen


def test_enough_samples_are_not_added_to() -> None:
    """Seven columns are known well from 150 samples: four times as many buy nothing more, and the rest stays unread."""
    task, gradients = task_of(fit=3000)
    seen = counted(task)
    made = estimate(task, gradients, replace(SPARING, samples=150, sensitivity_samples=16))
    assert made.samples == 600
    assert seen[0] == 600 + 16


def test_samples_are_added_while_they_buy_more() -> None:
    """A hundred columns of unlike size are not known from 16 samples, nor from 64."""
    task, gradients = task_of(columns=100, spread=2.0, fit=3000)
    made = estimate(task, gradients, replace(SPARING, samples=16))
    assert made.samples > 64
    assert estimate(task, gradients, replace(SPARING, samples=16, improvement=1e9)).samples == 64


@pytest.mark.parametrize("fit", [40, 600])
def test_everything_is_the_mean_moment_of_all_samples(fit: int) -> None:
    task, gradients = task_of(fit=fit)
    made = estimate(task, gradients, EVERYTHING)
    x = torch.cat([samples(fit, 6, 1).inputs, torch.ones(fit, 1)], dim=1).double()
    one = made.layers["0"]
    dense = (one.vectors[0] * one.values) @ one.vectors[0].T
    torch.testing.assert_close(dense.double(), x.T @ x / fit, atol=1e-4, rtol=1e-4)
    assert made.samples == fit


def test_few_samples_charge_steps_what_all_do() -> None:
    """The predicted cost of a random displacement is within a third of that by all samples and rows."""
    task, gradients = task_of(fit=3000)
    few, whole = (estimate(task, gradients, e) for e in (replace(SPARING, samples=500), EVERYTHING))
    g = torch.Generator().manual_seed(0)
    for x in task.layers:
        moved = torch.randn(x.groups, x.outputs, x.columns, generator=g)
        assert few.layers[x.name].kl(moved) == pytest.approx(whole.layers[x.name].kl(moved), rel=1 / 3)


def test_labels_that_the_data_set_does_not_give_are_refused() -> None:
    task, gradients = task_of()
    positions = {k + 1: own for k, own in task.samples.retain_fit.positions.items()}
    wrong = replace(
        task, samples=replace(task.samples, retain_fit=replace(task.samples.retain_fit, positions=positions))
    )
    with pytest.raises(InvalidData, match="labels says"):
        estimate(wrong, gradients)
