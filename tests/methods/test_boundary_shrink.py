"""Boundary shrink: where a step across the boundary leads, and what training towards it does."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Subset

from unsc.errors import InvalidData
from unsc.methods import Problem
from unsc.methods.boundary_shrink import boundary_shrink, neighbours
from unsc.samples import Batch, read

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
    ("bound", "classes", "expected"),
    [
        # The loss of class 0 falls with x, so the step goes down: x = 1 becomes 0, where logits are 0, 0.5 and 1.
        (1.0, (0,), 2),
        (1.0, None, 2),
        # 0.8 is still class 0 (0.8, 0.5, -1.4): the best of the others.
        (0.2, (0,), 1),
        (0.2, None, 1),
        # Class 2 wins, but is removed as well.
        (1.0, (0, 2), 1),
    ],
)
def test_neighbour_of_a_linear_model_by_hand(bound: float, classes: tuple[int, ...] | None, expected: int) -> None:
    problem = Problem(_line(), 3, classes)
    batch = Batch(torch.tensor([[1.0]]), torch.tensor([0]))
    assert neighbours(problem.model, batch, problem.removed, bound).tolist() == [expected]


def test_samples_are_moved_by_themselves() -> None:
    """A sample's neighbour does not depend on what else is in its batch, nor are the inputs changed."""
    problem, inputs = Problem(_line(), 3, None), torch.tensor([[1.0], [-1.0], [0.4]])
    before, labels = inputs.clone(), torch.tensor([0, 2, 1])
    together = neighbours(problem.model, Batch(inputs, labels), problem.removed, 0.7)
    alone = [neighbours(problem.model, Batch(inputs[[i]], labels[[i]]), problem.removed, 0.7) for i in range(3)]
    assert torch.equal(together, torch.cat(alone))
    assert torch.equal(inputs, before) and all(p.grad is None for p in problem.model.parameters())


@pytest.mark.parametrize("inputs", [torch.tensor([[1]]), {"x": torch.tensor([[1.0]])}, (torch.tensor([[1.0]]),)])
def test_inputs_that_cannot_be_moved_are_refused(inputs: Tensor | dict | tuple) -> None:
    problem = Problem(_line(), 3, None)
    with pytest.raises(InvalidData, match="one floating point tensor"):
        neighbours(problem.model, Batch(inputs, torch.tensor([0])), problem.removed, 0.1)


def test_a_class_is_forgotten(digits_problem: Problem, digits_parts: dict) -> None:
    model = boundary_shrink(digits_problem, **SETTINGS)
    for part in ("train", "test"):
        assert _accuracy(digits_problem.model, digits_parts[f"forget_{part}"]) > 0.9
        assert _accuracy(model, digits_parts[f"forget_{part}"]) < 0.05
        assert _accuracy(model, digits_parts[f"retain_{part}"]) > 0.8


def test_the_original_stays_and_seeds_reproduce(digits_problem: Problem) -> None:
    before = {k: v.clone() for k, v in digits_problem.model.state_dict().items()}
    first, again, other = (
        boundary_shrink(replace(digits_problem, seed=seed), lr=1e-3, epochs=1).state_dict() for seed in (1, 1, 2)
    )
    assert all(torch.equal(v, before[k]) for k, v in digits_problem.model.state_dict().items())
    assert all(torch.equal(first[k], again[k]) for k in first)
    assert any(not torch.equal(first[k], other[k]) for k in first)


def test_without_steps_nothing_changes(digits_problem: Problem) -> None:
    for settings in ({"lr": 0.0, "epochs": 1}, {"lr": 0.1, "epochs": 0}):
        model = boundary_shrink(digits_problem, **settings)
        assert all(map(torch.equal, model.state_dict().values(), digits_problem.model.state_dict().values()))


def test_records_are_forgotten_more_than_others(digits_problem: Problem, digits) -> None:
    order = torch.randperm(len(digits.train), generator=torch.Generator().manual_seed(0)).tolist()
    forget, retain = Subset(digits.train, order[:60]), Subset(digits.train, order[60:])
    problem = replace(digits_problem, classes=None, forget=forget, retain=retain)
    model = boundary_shrink(problem, lr=3e-4, epochs=5)
    gone, kept = read(forget, range(60)), read(retain, range(len(retain)))

    def rise(batch: Batch) -> float:
        with torch.no_grad():
            after, before = (F.cross_entropy(m(batch.inputs), batch.labels) for m in (model, problem.model))
        return (after - before).item()

    assert rise(gone) > max(0.005, 1.2 * rise(kept))
    assert _accuracy(model, kept) > 0.95
