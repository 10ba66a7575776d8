"""Random labels for the forgotten samples alone."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn
from torch.utils.data import TensorDataset

from unsc.datasets import read, size_of
from unsc.logits import logits_of
from unsc.methods import NO_DATA, Problem
from unsc.methods.relabel import relabel
from unsc.models import working_copy
from unsc.request import Request


def test_one_step_is_that_of_the_only_label_that_is_left() -> None:
    """Two classes, one forgotten: every sample gets the other label, so the step is known."""
    torch.manual_seed(0)
    model, x = nn.Linear(3, 2), torch.randn(5, 3)
    problem = Problem(model, Request.for_classes([0], 2), forget=TensorDataset(x, torch.zeros(5, dtype=torch.long)))
    moved = relabel(problem, lr=0.1, epochs=1)
    # The gradient of the cross entropy by hand: (p - e_1) x, averaged over the samples.
    error = model(x).softmax(dim=1) - torch.tensor([0.0, 1.0])
    torch.testing.assert_close(moved.weight, model.weight - 0.1 * error.T @ x / 5)
    torch.testing.assert_close(moved.bias, model.bias - 0.1 * error.mean(dim=0))


def test_it_forgets_and_what_stays_is_not_looked_at(digits_problem: Problem) -> None:
    alone = replace(digits_problem, retain=NO_DATA)
    model = relabel(alone, lr=1e-3, epochs=10)
    working = working_copy(model)
    batch = read(digits_problem.forget, range(size_of(digits_problem.forget)))
    with torch.no_grad():
        known = (logits_of(working, batch).argmax(dim=1) == 3).float().mean()
    assert known < 0.1
    again = relabel(digits_problem, lr=1e-3, epochs=10)
    assert all(map(torch.equal, model.parameters(), again.parameters()))
