"""Boundary shrink: where a step across the boundary leads, and what training towards it does."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.errors import InvalidData
from unsc.methods import Problem
from unsc.methods.boundary_shrink import boundary_shrink, neighbours
from unsc.request import Request

SETTINGS = {"lr": 3e-4, "epochs": 10}


def _line() -> nn.Linear:
    """Logits x, 0.5 and 1 - 3x of one number x: at x = 1 they are 1, 0.5 and -2."""
    model = nn.Linear(1, 3)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0], [0.0], [-3.0]]))
        model.bias.copy_(torch.tensor([0.0, 0.5, 1.0]))
    return model


def _accuracy(model: nn.Module, batch: Batch) -> float:
    with torch.no_grad():
        return (model(batch.inputs).argmax(dim=1) == batch.labels).float().mean().item()


@pytest.mark.parametrize(
    ("bound", "asked", "expected"),
    [
        # The loss of class 0 falls with x, so the step goes down: x = 1 becomes 0, where logits are 0, 0.5 and 1.
        (1.0, Request.for_classes([0], 3), 2),
        (1.0, Request.for_records(None, 3), 2),
        # 0.8 is still class 0 (0.8, 0.5, -1.4): the best of the others.
        (0.2, Request.for_classes([0], 3), 1),
        (0.2, Request.for_records(None, 3), 1),
        # Class 2 wins, but is removed as well.
        (1.0, Request.for_classes([0, 2], 3), 1),
    ],
)
def test_neighbour_of_a_linear_model_by_hand(bound: float, asked: Request, expected: int) -> None:
    problem = Problem(_line(), asked)
    batch = Batch(torch.tensor([[1.0]]), torch.tensor([0]))
    assert neighbours(problem.model, batch, problem.removed, bound).tolist() == [expected]


def test_samples_are_moved_by_themselves() -> None:
    """A sample's neighbour does not depend on what else is in its batch, nor are the inputs changed."""
    problem, inputs = Problem(_line(), Request.for_records(None, 3)), torch.tensor([[1.0], [-1.0], [0.4]])
    before, labels = inputs.clone(), torch.tensor([0, 2, 1])
    together = neighbours(problem.model, Batch(inputs, labels), problem.removed, 0.7)
    alone = [neighbours(problem.model, Batch(inputs[[i]], labels[[i]]), problem.removed, 0.7) for i in range(3)]
    assert torch.equal(together, torch.cat(alone))
    assert torch.equal(inputs, before) and all(p.grad is None for p in problem.model.parameters())


@pytest.mark.parametrize("inputs", [torch.tensor([[1]]), {"x": torch.tensor([[1.0]])}, (torch.tensor([[1.0]]),)])
def test_inputs_that_cannot_be_moved_are_refused(inputs: Tensor | dict | tuple) -> None:
    problem = Problem(_line(), Request.for_records(None, 3))
    with pytest.raises(InvalidData, match="one floating point tensor"):
        neighbours(problem.model, Batch(inputs, torch.tensor([0])), problem.removed, 0.1)


def test_a_class_is_forgotten(digits_problem: Problem, digits_parts: dict) -> None:
    model = boundary_shrink(digits_problem, **SETTINGS)
    for part in ("train", "test"):
        assert _accuracy(digits_problem.model, digits_parts[f"forget_{part}"]) > 0.9
        assert _accuracy(model, digits_parts[f"forget_{part}"]) < 0.05
        assert _accuracy(model, digits_parts[f"retain_{part}"]) > 0.8
