"""One loss that goes down on what stays and up on what goes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Subset, TensorDataset

from unsc.errors import InvalidRequest
from unsc.evaluation.accuracy import evaluate
from unsc.methods import Problem
from unsc.methods.finetune import finetune
from unsc.methods.gradient_ascent import gradient_ascent
from unsc.methods.neggrad_plus import neggrad_plus
from unsc.request import Request

X = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [0.3, -2.0], [2.0, 1.0]], dtype=torch.float64)
Y = torch.tensor([0, 1, 0, 1])
GONE = torch.tensor([[0.5, 0.5], [-2.0, 1.0]], dtype=torch.float64)


def gradient(weight: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Of the mean cross-entropy of `x @ weight.T`, by its formula."""
    return ((x @ weight.T).softmax(dim=1) - F.one_hot(y, 3)).T @ x / len(x)


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(map(torch.equal, a.state_dict().values(), b.state_dict().values()))


@pytest.mark.parametrize(("asked", "label"), [(Request.for_classes([2], 3), 2), (Request.for_records(None, 3), 1)])
def test_one_step_is_the_weighted_difference(asked: Request, label: int) -> None:
    """For classes and records alike, and the user's model is as it was."""
    torch.manual_seed(0)
    model = nn.Linear(2, 3, bias=False).double()
    w0, labels = model.weight.detach().clone(), torch.full((2,), label)
    problem = Problem(model, asked, TensorDataset(GONE, labels), TensorDataset(X, Y))
    result = neggrad_plus(problem, lr=0.1, epochs=1, forget_weight=0.3, batch_size=4, weight_decay=0, limit=100)
    step = 0.7 * gradient(w0, X, Y) - 0.3 * gradient(w0, GONE, labels)
    torch.testing.assert_close(result.weight, w0 - 0.1 * step)
    assert torch.equal(model.weight, w0)


def test_its_ends_are_fine_tuning_and_ascent(digits_problem: Problem) -> None:
    """Without any weight on the forgotten samples it is fine-tuning, bit for bit; with all of it, gradient ascent."""
    problem = replace(digits_problem, seed=3)
    assert same(neggrad_plus(problem, epochs=1, forget_weight=0), finetune(problem, epochs=1))
    some = replace(problem, retain=problem.forget)  # as many steps as the forgotten samples make
    up = neggrad_plus(some, lr=1e-3, epochs=2, forget_weight=1, weight_decay=0)
    assert same(up, gradient_ascent(some, lr=1e-3, epochs=2, momentum=0.9))


def test_digits_are_forgotten(digits_problem: Problem) -> None:
    model = neggrad_plus(digits_problem, epochs=3, forget_weight=0.03)
    found = evaluate(model, retain_test=digits_problem.retain, forget_test=digits_problem.forget)  # type: ignore[arg-type]
    assert found.forget_test_acc < 50 and found.retain_test_acc > 90


def test_records_get_worse_where_fine_tuning_makes_them_better(digits_problem: Problem) -> None:
    data = digits_problem.retain.dataset  # type: ignore[union-attr]
    x, y = data[:40]
    problem = Problem(
        digits_problem.model, Request.for_records(None, 10), Subset(data, range(40)), Subset(data, range(40, len(data)))
    )
    pushed, tuned = neggrad_plus(problem, epochs=1, forget_weight=0.3), finetune(problem, epochs=1)
    with torch.no_grad():
        up, was, down = (F.cross_entropy(m(x), y).item() for m in (pushed, digits_problem.model, tuned))
    assert up > was > down


@pytest.mark.parametrize("weight", [-0.1, 1.5, float("nan")])
def test_a_weight_that_is_no_share_is_refused(digits_problem: Problem, weight: float) -> None:
    with pytest.raises(InvalidRequest, match="forget_weight"):
        neggrad_plus(digits_problem, forget_weight=weight)
