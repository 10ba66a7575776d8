"""DELETE: what the masked teacher asks for, and what comes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Subset, TensorDataset

from unsc.methods import Problem
from unsc.methods.delete import delete
from unsc.samples import Batch, read

SETTINGS = {"lr": 5e-4, "epochs": 10}


def _accuracy(model: nn.Module, batch: Batch) -> float:
    with torch.no_grad():
        return (model(batch.inputs).argmax(dim=1) == batch.labels).float().mean().item()


@pytest.mark.parametrize("classes", [(0, 1), None])
def test_one_step_by_hand(classes: tuple[int, ...] | None) -> None:
    """With one-hot inputs a linear model's weights are its logits z, and a step is -lr (softmax(z) - target) / n."""
    torch.manual_seed(0)
    model, labels = nn.Linear(3, 4, bias=False).double(), torch.tensor([0, 1, 0])
    problem = Problem(model, 4, classes, forget=TensorDataset(torch.eye(3).double(), labels))
    p = torch.softmax(model.weight.detach().T, dim=1)
    target = p.clone()
    for i, label in enumerate(labels.tolist()):
        target[i, list(classes or (label,))] = 0  # the others keep their proportions
    target /= target.sum(dim=1, keepdim=True)
    found = delete(problem, lr=0.5, epochs=1, batch_size=3)
    torch.testing.assert_close(found.weight.T, model.weight.T - 0.5 * (p - target) / 3, rtol=1e-5, atol=1e-6)


def test_in_the_end_the_other_classes_share_what_is_left() -> None:
    torch.manual_seed(1)
    model = nn.Linear(3, 4).double()
    data = TensorDataset(torch.eye(3).double(), torch.full((3,), 2))
    found = delete(Problem(model, 4, (2,), forget=data), lr=2.0, epochs=400)
    before, after = (torch.softmax(m(data.tensors[0]), dim=1) for m in (model, found))
    left = [0, 1, 3]
    torch.testing.assert_close(after[:, left], before[:, left] / (1 - before[:, [2]]), atol=0.01, rtol=0)
    assert (after[:, 2] < 0.01).all()


def test_a_class_is_forgotten(digits_problem: Problem, digits_parts: dict) -> None:
    model = delete(replace(digits_problem, retain=None), **SETTINGS)
    for part in ("train", "test"):
        assert _accuracy(digits_problem.model, digits_parts[f"forget_{part}"]) > 0.9
        assert _accuracy(model, digits_parts[f"forget_{part}"]) < 0.05
        assert _accuracy(model, digits_parts[f"retain_{part}"]) > 0.8


def test_the_original_stays_and_seeds_reproduce(digits_problem: Problem) -> None:
    before = {k: v.clone() for k, v in digits_problem.model.state_dict().items()}
    first, again, other = (
        delete(replace(digits_problem, seed=s), epochs=1, batch_size=32).state_dict() for s in (1, 1, 2)
    )
    assert all(torch.equal(v, before[k]) for k, v in digits_problem.model.state_dict().items())
    assert all(torch.equal(first[k], again[k]) for k in first)
    assert any(not torch.equal(first[k], other[k]) for k in first)


def test_without_steps_nothing_changes(digits_problem: Problem) -> None:
    for settings in ({"lr": 0.0, "epochs": 1}, {"lr": 0.1, "epochs": 0}):
        model = delete(digits_problem, **settings)
        assert all(map(torch.equal, model.state_dict().values(), digits_problem.model.state_dict().values()))


def test_inputs_by_name_serve() -> None:
    class Named(nn.Linear):
        def forward(self, *, words: torch.Tensor) -> torch.Tensor:
            return super().forward(words)

    data = [{"words": torch.eye(3)[i], "labels": 0} for i in range(3)]
    model = Named(3, 4)
    found = delete(Problem(model, 4, (0,), forget=data), lr=1.0, epochs=20)  # type: ignore[arg-type]
    assert (found(words=torch.eye(3)).argmax(dim=1) != 0).all()


def test_records_are_forgotten_more_than_others(digits_problem: Problem, digits) -> None:
    order = torch.randperm(len(digits.train), generator=torch.Generator().manual_seed(0)).tolist()
    forget, retain = Subset(digits.train, order[:60]), Subset(digits.train, order[60:])
    problem = replace(digits_problem, classes=None, forget=forget, retain=retain)
    model = delete(problem, lr=3e-4, epochs=5)
    gone, kept = read(forget, range(60)), read(retain, range(len(retain)))

    def rise(batch: Batch) -> float:
        with torch.no_grad():
            after, before = (F.cross_entropy(m(batch.inputs), batch.labels) for m in (model, problem.model))
        return (after - before).item()

    assert rise(gone) > max(0.005, 1.2 * rise(kept))
    assert _accuracy(model, kept) > 0.95
