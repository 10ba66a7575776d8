"""Random labels: which ones are drawn, and a step computed by hand where only one is possible."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Subset, TensorDataset

from unsc.evaluation.accuracy import evaluate
from unsc.methods import Problem
from unsc.methods.random_label import random_label, random_labels, relabelled_batches
from unsc.request import Request

X = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [0.3, -2.0], [2.0, 1.0]], dtype=torch.float64)
GONE = torch.tensor([[0.5, 0.5], [-2.0, 1.0]], dtype=torch.float64)


def gradient(weight: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Of the mean cross-entropy of `x @ weight.T`, by its formula."""
    return ((x @ weight.T).softmax(dim=1) - F.one_hot(y, 2)).T @ x / len(x)


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(map(torch.equal, a.state_dict().values(), b.state_dict().values()))


@pytest.mark.parametrize(
    ("asked", "own"), [(Request.for_classes([1], 2), [1, 1]), (Request.for_records(None, 2), [1, 0])]
)
def test_one_step_where_one_label_is_possible(asked: Request, own: list[int]) -> None:
    """Of two classes, a forgotten sample can go to the other one only; two such samples join four retained ones."""
    torch.manual_seed(0)
    model = nn.Linear(2, 2, bias=False).double()
    w0, y = model.weight.detach().clone(), torch.tensor([0, 1, 0, 1])
    problem = Problem(model, asked, TensorDataset(GONE, torch.tensor(own)), TensorDataset(X, y))
    result = random_label(problem, lr=0.1, epochs=1, batch_size=4)
    step = gradient(w0, torch.cat([X, GONE]), torch.cat([y, 1 - torch.tensor(own)]))
    torch.testing.assert_close(result.weight, w0 - 0.1 * step)
    assert torch.equal(model.weight, w0)


def test_labels_are_never_removed_ones_and_all_others_alike() -> None:
    """6,000 draws: of classes, those that stay; of records, all but their own. Within 5 standard deviations."""
    labels = torch.arange(6).repeat(1000)
    of_classes = Problem(nn.Linear(1, 6), Request.for_classes([1, 4], 6))
    drawn = random_labels(of_classes, labels, of_classes.generator()).bincount(minlength=6)
    assert drawn[[1, 4]].tolist() == [0, 0]
    assert (drawn[[0, 2, 3, 5]] - 1500).abs().max() < 5 * (6000 * 0.25 * 0.75) ** 0.5
    of_records = Problem(nn.Linear(1, 6), Request.for_records(None, 6))
    drawn = (random_labels(of_records, labels, of_records.generator()) - labels).remainder(6).bincount(minlength=6)
    assert drawn[0] == 0
    assert (drawn[1:] - 1200).abs().max() < 5 * (6000 * 0.2 * 0.8) ** 0.5


@pytest.mark.parametrize(("forgotten", "in_a_batch"), [(1, 1), (25, 2), (400, 8)])
def test_every_batch_holds_both_kinds(forgotten: int, in_a_batch: int) -> None:
    """In proportion, at least one forgotten sample and at most as many as retained ones; all retained ones come."""
    x = torch.arange(100.0 + forgotten)[:, None]
    forget = TensorDataset(-1 - x[:forgotten], torch.zeros(forgotten, dtype=torch.int64))
    retain = TensorDataset(x[:100], torch.ones(100, dtype=torch.int64))
    batches = list(
        relabelled_batches(
            Problem(nn.Linear(1, 3), Request.for_classes([0], 3), forget, retain), epochs=2, batch_size=8
        )
    )
    gone = [batch.inputs[batch.inputs < 0] for batch in batches]
    assert len(batches) == 2 * 13 and {len(g) for g in gone} - {1} <= {in_a_batch}
    kept = torch.cat([batch.inputs[batch.inputs >= 0] for batch in batches])
    assert torch.equal(kept.unique(return_counts=True)[1], torch.full((100,), 2))
    assert all(0 not in batch.labels for batch in batches)


def test_the_seed_decides_the_labels(digits_problem: Problem) -> None:
    some = replace(digits_problem, retain=Subset(digits_problem.retain, range(200)))  # type: ignore[arg-type]
    alike = replace(some, forget=Subset(some.forget, [0] * 100))  # type: ignore[arg-type]
    drawn = [
        [b.labels[:20].tolist() for b in relabelled_batches(replace(alike, seed=s), epochs=1, batch_size=40)]
        for s in (0, 1)
    ]
    assert drawn[0] != drawn[1]


def test_digits_are_forgotten(digits_problem: Problem) -> None:
    before = {name: value.clone() for name, value in digits_problem.model.state_dict().items()}
    model = random_label(digits_problem, lr=0.02, epochs=3)
    found = evaluate(model, retain_test=digits_problem.retain, forget_test=digits_problem.forget)  # type: ignore[arg-type]
    assert found.forget_test_acc < 5 and found.retain_test_acc > 97
    assert all(torch.equal(value, before[name]) for name, value in digits_problem.model.state_dict().items())


def test_records_lose_their_labels(digits_problem: Problem) -> None:
    """Most of what is relearned is no longer given its own class with confidence; the rest stays right."""
    data = digits_problem.retain.dataset  # type: ignore[union-attr]
    x, y = data[:40]
    retain = Subset(data, range(40, len(data)))
    model = random_label(
        Problem(digits_problem.model, Request.for_records(None, 10), Subset(data, range(40)), retain), epochs=3
    )
    with torch.no_grad():
        was, now = (F.cross_entropy(m(x), y).item() for m in (digits_problem.model, model))
    assert now > 5 * was
    assert evaluate(model, retain_test=retain, forget_test=data).retain_test_acc > 97
