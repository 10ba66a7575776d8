"""Steps that nobody watches: they spend their budget by the prediction, which is right where the curvature is."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from unsc.batches import Batch
from unsc.layers import find_layers
from unsc.steps.blind import BlindStep
from unsc.steps.curvature import LayerCurvature, RetainedCurvature
from unsc.steps.together import Together


def exact(rows: torch.Tensor, sensitivity: float) -> RetainedCurvature:
    """The curvature of a linear layer with a bias, from all retained rows, with hardly any damping."""
    whole = torch.cat([rows, torch.ones(len(rows), 1)], dim=1).double()
    values, vectors = torch.linalg.eigh(whole.T @ whole / len(rows))
    (layer,) = find_layers(nn.Linear(5, 3)).layers
    return RetainedCurvature(
        {layer.name: LayerCurvature(values[None].float(), vectors[None].float(), sensitivity, 1e-3)}, 1
    )


def test_a_step_spends_its_budget_and_says_what_it_did() -> None:
    torch.manual_seed(0)
    model, rows = nn.Linear(5, 3), torch.randn(400, 5)
    original = copy.deepcopy(model)
    layers = find_layers(model).layers
    step = BlindStep(model, layers, exact(rows, 0.2), Together.alone(1), budget=1e-3)
    forgotten = Batch(torch.randn(16, 5) + 2, torch.zeros(16).long())
    targets = torch.tensor([[0.0, 0.5, 0.5]]).expand(16, 3)
    step(forgotten, targets)
    assert step.predicted_kl(original, model) == pytest.approx(1e-3, rel=0.02)
    with torch.no_grad():
        moved, size = ((a(rows) - b).square().sum() for a, b in ((model, original(rows)), (original, 0)))
    (drift,) = step.predicted_drift(original, model).values()
    assert drift == pytest.approx((moved / size).sqrt().item(), rel=1e-3)


def test_what_layers_cost_together_makes_steps_shorter() -> None:
    torch.manual_seed(0)
    rows = torch.randn(400, 5)
    lengths = []
    for excess in (1.0, 4.0):
        torch.manual_seed(1)
        model = nn.Linear(5, 3)
        before = model.weight.detach().clone()
        together = Together(torch.tensor([excess], dtype=torch.float64), torch.eye(1, dtype=torch.float64))
        step = BlindStep(model, find_layers(model).layers, exact(rows, 0.2), together, budget=1e-4)
        step(Batch(torch.ones(8, 5), torch.zeros(8).long()), torch.tensor([[0.0, 1.0, 0.0]]).expand(8, 3))
        lengths.append((model.weight.detach() - before).norm().item())
    assert lengths[0] == pytest.approx(2 * lengths[1], rel=1e-3)


def test_nothing_is_left_to_learn() -> None:
    model = nn.Linear(5, 3)
    before = model.weight.detach().clone()
    step = BlindStep(model, find_layers(model).layers, exact(torch.randn(50, 5), 1.0), Together.alone(1), budget=1.0)
    batch = Batch(torch.randn(4, 5), torch.zeros(4).long())
    step(batch, model(batch.inputs).softmax(dim=1).detach())
    assert torch.equal(model.weight, before)
