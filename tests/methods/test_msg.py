"""Masked small gradients: which weights are chosen, by the formula; what is drawn anew and what is held."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Subset, TensorDataset

from unsc.errors import InvalidRequest, UnsupportedModel
from unsc.evaluation.accuracy import evaluate
from unsc.methods import Problem
from unsc.methods.msg import msg, small_gradients
from unsc.request import Request


def test_the_smallest_difference_of_gradients_is_chosen() -> None:
    """By the formula of a linear model's gradient, over several batches; all retained samples are needed here."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3).double()
    x, y = torch.randn(10, 4, dtype=torch.float64), torch.randint(3, (10,))
    error = (x @ model.weight.T + model.bias).softmax(dim=1).detach() - F.one_hot(y, 3)
    sizes = (error[5:].T @ x[5:] - error[:5].T @ x[:5]).abs()
    data = TensorDataset(x, y)
    problem = Problem(model, Request.for_records(None, 3), Subset(data, range(5)), Subset(data, range(5, 10)))
    found = small_gradients(problem, model, [model.weight], share=0.25, batch_size=2)[model.weight]
    assert torch.equal(found, sizes <= sizes.flatten().sort().values[2])
    assert model.weight.grad is None


def test_without_steps_the_chosen_weights_alone_are_new(digits_problem: Problem) -> None:
    model = digits_problem.copy()
    convolutions = [m.weight for m in model.modules() if isinstance(m, nn.Conv2d)]
    chosen = small_gradients(digits_problem, model, convolutions, share=0.3, batch_size=64)
    after = dict(msg(digits_problem, epochs=0).named_parameters())
    for name, before in model.named_parameters():
        new = before != after[name]
        assert torch.equal(new, chosen[before]) if before in chosen else not new.any()
    weight = after["7.weight"].detach()[chosen[convolutions[2]]]
    assert weight.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.1)


def test_kept_weights_are_trained_with_a_part_of_their_gradient(digits_problem: Problem) -> None:
    """With a factor of 0 and no decay they do not move at all; the others do."""
    model = digits_problem.copy()
    convolutions = [m.weight for m in model.modules() if isinstance(m, nn.Conv2d)]
    chosen = small_gradients(digits_problem, model, convolutions, share=0.3, batch_size=64)
    start, after = (
        dict(msg(digits_problem, epochs=epochs, others=0.0, weight_decay=0.0).named_parameters()) for epochs in (0, 1)
    )
    for name, before in model.named_parameters():
        if before in chosen:
            assert torch.equal(before[~chosen[before]], after[name][~chosen[before]])
            assert (start[name] != after[name])[chosen[before]].float().mean() > 0.9


def test_what_stays_is_learned_again(digits_problem: Problem) -> None:
    broken, model = (msg(digits_problem, epochs=epochs) for epochs in (0, 3))
    parts = {"retain_test": digits_problem.retain, "forget_test": digits_problem.forget}
    assert evaluate(broken, **parts).retain_test_acc < 90  # type: ignore[arg-type]
    assert evaluate(model, **parts).retain_test_acc > 97  # type: ignore[arg-type]
    assert not model.training


def test_what_it_cannot_do_is_said(digits_problem: Problem) -> None:
    with pytest.raises(InvalidRequest, match="a share from 0 to 1"):
        msg(digits_problem, share=1.5)
    data = TensorDataset(torch.randn(4, 2), torch.tensor([0, 1, 0, 1]))
    with pytest.raises(UnsupportedModel, match="neither convolutions nor hidden linear layers"):
        msg(Problem(nn.Linear(2, 2), Request.for_records(None, 2), data, data))
