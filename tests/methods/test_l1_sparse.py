"""Fine-tuning under a falling L1 penalty, against steps computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Subset, TensorDataset

from unsc.errors import InvalidRequest
from unsc.evaluation.accuracy import evaluate
from unsc.methods import NO_DATA, Problem
from unsc.methods.finetune import finetune
from unsc.methods.l1_sparse import l1_sparse
from unsc.request import Request

X = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [0.3, -2.0], [2.0, 1.0]], dtype=torch.float64)
Y = torch.tensor([0, 1, 2, 0])


def gradient(weight: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Of the mean cross-entropy of `x @ weight.T`, by its formula."""
    return ((x @ weight.T).softmax(dim=1) - F.one_hot(y, 3)).T @ x / len(x)


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(map(torch.equal, a.state_dict().values(), b.state_dict().values()))


def test_the_penalty_falls_from_all_to_none() -> None:
    """Of three steps, the first has all of it, the second two thirds, the third one third."""
    torch.manual_seed(0)
    model = nn.Linear(2, 3, bias=False).double()
    w = w0 = model.weight.detach().clone()
    v = torch.zeros_like(w)
    for left in (1, 2 / 3, 1 / 3):
        v = 0.9 * v + gradient(w, X, Y) + left * 0.2 * w.sign()
        w = w - 0.05 * v
    problem = Problem(model, Request.for_records(None, 3), retain=TensorDataset(X, Y))
    result = l1_sparse(problem, lr=0.05, epochs=3, penalty=0.2, batch_size=4, weight_decay=0)
    torch.testing.assert_close(result.weight, w)
    assert torch.equal(model.weight, w0)


def test_without_penalty_it_is_fine_tuning(digits_problem: Problem) -> None:
    """Bit for bit."""
    assert same(l1_sparse(digits_problem, epochs=1, penalty=0), finetune(digits_problem, epochs=1))


def test_digits_are_forgotten_and_weights_shrink(digits_problem: Problem) -> None:
    """Without the forgotten samples."""
    before = {name: value.clone() for name, value in digits_problem.model.state_dict().items()}
    settings = {"lr": 0.05, "epochs": 5, "penalty": 5e-3}
    model = l1_sparse(replace(digits_problem, forget=NO_DATA), **settings)
    found = evaluate(model, retain_test=digits_problem.retain, forget_test=digits_problem.forget)  # type: ignore[arg-type]
    assert found.forget_test_acc < 20 and found.retain_test_acc > 95

    def small(m: nn.Module) -> float:
        return torch.cat([p.detach().flatten() for p in m.parameters()]).abs().lt(1e-2).float().mean().item()

    assert small(model) > 2 * small(digits_problem.model)
    assert all(torch.equal(value, before[name]) for name, value in digits_problem.model.state_dict().items())


def test_records(digits_problem: Problem) -> None:
    """The other samples of all classes stay right."""
    data = digits_problem.retain.dataset  # type: ignore[union-attr]
    forget, retain = Subset(data, range(20)), Subset(data, range(20, len(data)))
    model = l1_sparse(
        Problem(digits_problem.model, Request.for_records(None, 10), forget, retain), epochs=1, penalty=1e-3
    )
    assert evaluate(model, retain_test=retain, forget_test=forget).retain_test_acc > 99


@pytest.mark.parametrize("penalty", [-1.0, float("nan")])
def test_a_negative_penalty_is_refused(digits_problem: Problem, penalty: float) -> None:
    with pytest.raises(InvalidRequest, match="penalty"):
        l1_sparse(digits_problem, penalty=penalty)
