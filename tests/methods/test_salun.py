"""SalUn is random labels under a mask: its ends, and the mask against a gradient computed by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Subset, TensorDataset

from unsc.errors import InvalidRequest
from unsc.evaluation.accuracy import evaluate
from unsc.methods import Problem
from unsc.methods.random_label import random_label
from unsc.methods.salun import salient, salun
from unsc.request import Request


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(map(torch.equal, a.state_dict().values(), b.state_dict().values()))


def of_records(problem: Problem) -> Problem:
    data = problem.retain.dataset  # type: ignore[union-attr]
    return Problem(
        problem.model, Request.for_records(None, 10), Subset(data, range(40)), Subset(data, range(40, len(data)))
    )


@pytest.mark.parametrize("kind", ["classes", "records"])
def test_its_ends_are_random_labels_and_nothing(digits_problem: Problem, kind: str) -> None:
    """With all weights it is random labels, bit for bit; with none, the original."""
    problem = digits_problem if kind == "classes" else of_records(digits_problem)
    everything, nothing = (salun(problem, epochs=1, share=share) for share in (1.0, 0.0))
    assert same(everything, random_label(problem, epochs=1))
    assert same(nothing, problem.model)
    assert not same(everything, problem.model)


def test_the_mask_is_the_largest_gradients_of_all_weights() -> None:
    """Over both parameters together, in several batches, by the formula of the gradient."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3).double()
    x, y = torch.randn(10, 4, dtype=torch.float64), torch.randint(3, (10,))
    error = (x @ model.weight.T + model.bias).softmax(dim=1).detach() - F.one_hot(y, 3)
    sizes = torch.cat([(error.T @ x).flatten(), error.sum(dim=0)]).abs()
    expected = sizes >= sizes.sort(descending=True).values[5]
    problem = Problem(model, Request.for_classes([1], 3), forget=TensorDataset(x, y))
    found = salient(problem, model, share=0.4, batch_size=3)  # 6 of 15
    assert torch.equal(torch.cat([found[p].flatten() for p in model.parameters()]), expected)
    assert all(p.grad is None for p in model.parameters())


def test_what_the_mask_leaves_out_stays(digits_problem: Problem) -> None:
    """Bit for bit, through steps with momentum; what it lets through moves."""
    model = digits_problem.copy()
    masks = salient(digits_problem, model, share=0.3, batch_size=64)
    chosen = torch.cat([masks[p].flatten() for p in model.parameters()])
    assert chosen.sum() == round(0.3 * len(chosen))
    result = salun(digits_problem, epochs=1, share=0.3)
    before, after = (torch.cat([p.detach().flatten() for p in m.parameters()]) for m in (model, result))
    assert torch.equal(before[~chosen], after[~chosen])
    assert (before[chosen] != after[chosen]).float().mean() > 0.9


def test_a_frozen_weight_is_neither_counted_nor_moved() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    model[0].requires_grad_(False)
    data = TensorDataset(torch.randn(10, 4), torch.arange(10) % 3)
    problem = Problem(model, Request.for_records(None, 3), Subset(data, range(3)), Subset(data, range(3, 10)))
    result = salun(problem, lr=0.1, epochs=1, share=1.0)
    assert same(result[0], model[0]) and not same(result[1], model[1])  # type: ignore[index]


def test_digits_are_forgotten(digits_problem: Problem) -> None:
    before = {name: value.clone() for name, value in digits_problem.model.state_dict().items()}
    model = salun(digits_problem, lr=0.02, epochs=3)
    found = evaluate(model, retain_test=digits_problem.retain, forget_test=digits_problem.forget)  # type: ignore[arg-type]
    assert found.forget_test_acc < 5 and found.retain_test_acc > 97
    assert all(torch.equal(value, before[name]) for name, value in digits_problem.model.state_dict().items())


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_out_of_range_is_refused(digits_problem: Problem, share: float) -> None:
    with pytest.raises(InvalidRequest, match="share of weights from 0 to 1"):
        salun(digits_problem, share=share)
