"""Fine-tuning on what stays, against steps computed by hand."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Subset, TensorDataset

from unsc.batches import as_batch
from unsc.evaluation.accuracy import evaluate
from unsc.methods import NO_DATA, Problem
from unsc.methods.finetune import finetune
from unsc.request import Request

X = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [0.3, -2.0], [2.0, 1.0]], dtype=torch.float64)
Y = torch.tensor([0, 1, 2, 0])


def linear() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(2, 3, bias=False).double()


def gradient(weight: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Of the mean cross-entropy of `x @ weight.T`, by its formula."""
    return ((x @ weight.T).softmax(dim=1) - F.one_hot(y, 3)).T @ x / len(x)


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(map(torch.equal, a.state_dict().values(), b.state_dict().values()))


def test_two_steps_are_sgd_with_momentum_and_decay() -> None:
    model = linear()
    problem = Problem(model, Request.for_classes([2], 3), retain=TensorDataset(X, Y))
    w0 = model.weight.detach().clone()
    v1 = gradient(w0, X, Y) + 0.1 * w0
    w1 = w0 - 0.5 * v1
    v2 = 0.9 * v1 + gradient(w1, X, Y) + 0.1 * w1
    result = finetune(problem, lr=0.5, epochs=2, batch_size=4, weight_decay=0.1)
    torch.testing.assert_close(result.weight, w1 - 0.5 * v2)
    assert torch.equal(model.weight, w0)  # the user's model is as it was


def test_it_never_reads_forgotten_samples(digits_problem: Problem) -> None:
    """The same result without them, so they need not be there."""
    settings = {"lr": 0.01, "epochs": 1}
    assert same(finetune(digits_problem, **settings), finetune(replace(digits_problem, forget=NO_DATA), **settings))


def test_digits_fade_but_the_rest_stays(digits_problem: Problem, digits_parts: dict) -> None:
    """The forgotten class's loss rises, retained samples stay right, and statistics of batch norm do not move."""
    before = {name: value.clone() for name, value in digits_problem.model.state_dict().items()}
    model = finetune(digits_problem, lr=0.03, epochs=3)
    test = digits_parts["forget_test"]
    with torch.no_grad():
        was, now = (F.cross_entropy(m(test.inputs), test.labels).item() for m in (digits_problem.model, model))
    retained = digits_parts["retain_train"]
    assert now > 1.5 * was
    assert (model(retained.inputs).argmax(dim=1) == retained.labels).float().mean() > 0.99
    assert all(torch.equal(value, before[name]) for name, value in digits_problem.model.state_dict().items())
    assert all(torch.equal(value, before[name]) for name, value in model.named_buffers())
    assert not same(model, digits_problem.model)


def test_records(digits_problem: Problem) -> None:
    """Training goes on with the other samples, of all classes."""
    data = digits_problem.retain.dataset  # type: ignore[union-attr]
    forget, retain = Subset(data, range(20)), Subset(data, range(20, len(data)))
    model = finetune(Problem(digits_problem.model, Request.for_records(None, 10), forget, retain), epochs=1)
    assert evaluate(model, retain_test=retain, forget_test=forget).retain_test_acc > 99
    batch = as_batch(data[20:])
    losses = [F.cross_entropy(m(batch.inputs), batch.labels).item() for m in (model, digits_problem.model)]
    assert losses[0] < losses[1]
