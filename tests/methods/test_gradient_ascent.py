"""Gradient ascent, against steps computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Subset, TensorDataset

from unsc.evaluation.accuracy import evaluate
from unsc.methods import NO_DATA, Problem, apply, find
from unsc.methods.gradient_ascent import gradient_ascent
from unsc.request import Request

X = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [0.3, -2.0], [2.0, 1.0]], dtype=torch.float64)
Y = torch.tensor([2, 2, 1, 2])


def gradient(weight: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Of the mean cross-entropy of `x @ weight.T`, by its formula."""
    return ((x @ weight.T).softmax(dim=1) - F.one_hot(y, 3)).T @ x / len(x)


@pytest.mark.parametrize("asked", [Request.for_classes([1, 2], 3), Request.for_records(None, 3)])
def test_one_step_goes_up_the_gradient(asked: Request) -> None:
    """For classes and records alike, and the user's model is as it was."""
    torch.manual_seed(0)
    model = nn.Linear(2, 3, bias=False).double()
    w0 = model.weight.detach().clone()
    problem = Problem(model, asked, forget=TensorDataset(X, Y))
    result = gradient_ascent(problem, lr=0.1, epochs=1, batch_size=4, limit=100)
    torch.testing.assert_close(result.get_parameter("weight"), w0 + 0.1 * gradient(w0, X, Y))
    assert torch.equal(model.weight, w0)


def test_samples_that_are_long_lost_are_left_alone() -> None:
    """A limit between the losses of two samples: the step is that of the better one, halved by the mean over both."""
    model = nn.Linear(2, 3, bias=False).double()
    with torch.no_grad():
        model.weight.zero_()
        model.weight[2, 0] = 1.0  # the first sample is class 2 to it, the second one is not
    x, y = torch.tensor([[3.0, 0.0], [-3.0, 0.0]], dtype=torch.float64), torch.tensor([2, 2])
    problem = Problem(model, Request.for_classes([2], 3), forget=TensorDataset(x, y))
    result = gradient_ascent(problem, lr=0.1, epochs=1, limit=1.0)
    w0 = model.weight.detach()
    torch.testing.assert_close(result.get_parameter("weight"), w0 + 0.1 * gradient(w0, x[:1], y[:1]) / 2)
    low = gradient_ascent(problem, lr=0.1, epochs=1, limit=1e-3)
    assert torch.equal(low.get_parameter("weight"), w0)


def test_digits_are_forgotten_at_a_fitting_rate(digits_problem: Problem, digits_parts: dict) -> None:
    """The class is lost, most of the rest is not, and without the retained samples."""
    before = {name: value.clone() for name, value in digits_problem.model.state_dict().items()}
    model = gradient_ascent(replace(digits_problem, retain=NO_DATA), lr=0.05)
    retain, forget = digits_problem.retain, digits_problem.forget
    found = evaluate(model, retain_test=retain, forget_test=forget)  # type: ignore[arg-type]
    assert found.forget_test_acc < 10 and found.retain_test_acc > 70
    assert all(torch.equal(value, before[name]) for name, value in digits_problem.model.state_dict().items())


def test_too_high_a_rate_is_reported(digits_problem: Problem) -> None:
    result = apply(find("gradient_ascent"), digits_problem, lr=1e12)
    assert result.diverged


def test_records_lose_confidence(digits_problem: Problem) -> None:
    data = digits_problem.retain.dataset  # type: ignore[union-attr]
    x, y = data[:20]
    model = gradient_ascent(
        Problem(digits_problem.model, Request.for_records(None, 10), forget=Subset(data, range(20))), lr=3e-3
    )
    with torch.no_grad():
        was, now = (F.cross_entropy(m(x), y).item() for m in (digits_problem.model, model))
    assert now > was
