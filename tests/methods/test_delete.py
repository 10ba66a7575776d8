"""DELETE: what the masked teacher asks for, and what comes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from unsc.batches import Batch
from unsc.methods import NO_DATA, Problem
from unsc.methods.delete import delete
from unsc.request import Request

SETTINGS = {"lr": 5e-4, "epochs": 10}


def _accuracy(model: nn.Module, batch: Batch) -> float:
    with torch.no_grad():
        return (model(batch.inputs).argmax(dim=1) == batch.labels).float().mean().item()


@pytest.mark.parametrize("asked", [Request.for_classes([0, 1], 4), Request.for_records(None, 4)])
def test_one_step_by_hand(asked: Request) -> None:
    """With one-hot inputs a linear model's weights are its logits z, and a step is -lr (softmax(z) - target) / n."""
    torch.manual_seed(0)
    model, labels = nn.Linear(3, 4, bias=False).double(), torch.tensor([0, 1, 0])
    problem = Problem(model, asked, forget=TensorDataset(torch.eye(3).double(), labels))
    p = torch.softmax(model.weight.detach().T, dim=1)
    target = p.clone()
    for i, label in enumerate(labels.tolist()):
        target[i, list(asked.classes or (label,))] = 0  # the others keep their proportions
    target /= target.sum(dim=1, keepdim=True)
    found = delete(problem, lr=0.5, epochs=1, batch_size=3)
    torch.testing.assert_close(found.weight.T, model.weight.T - 0.5 * (p - target) / 3, rtol=1e-5, atol=1e-6)


def test_in_the_end_the_other_classes_share_what_is_left() -> None:
    torch.manual_seed(1)
    model = nn.Linear(3, 4).double()
    data = TensorDataset(torch.eye(3).double(), torch.full((3,), 2))
    found = delete(Problem(model, Request.for_classes([2], 4), forget=data), lr=2.0, epochs=400)
    before, after = (torch.softmax(m(data.tensors[0]), dim=1) for m in (model, found))
    left = [0, 1, 3]
    torch.testing.assert_close(after[:, left], before[:, left] / (1 - before[:, [2]]), atol=0.01, rtol=0)
    assert (after[:, 2] < 0.01).all()


def test_a_class_is_forgotten(digits_problem: Problem, digits_parts: dict) -> None:
    model = delete(replace(digits_problem, retain=NO_DATA), **SETTINGS)
    for part in ("train", "test"):
        assert _accuracy(digits_problem.model, digits_parts[f"forget_{part}"]) > 0.9
        assert _accuracy(model, digits_parts[f"forget_{part}"]) < 0.05
        assert _accuracy(model, digits_parts[f"retain_{part}"]) > 0.8


def test_inputs_by_name_serve() -> None:
    class Named(nn.Linear):
        def forward(self, *, words: torch.Tensor) -> torch.Tensor:
            return super().forward(words)

    data = [{"words": torch.eye(3)[i], "labels": 0} for i in range(3)]
    model = Named(3, 4)
    found = delete(Problem(model, Request.for_classes([0], 4), forget=data), lr=1.0, epochs=20)  # type: ignore[arg-type]
    assert (found(words=torch.eye(3)).argmax(dim=1) != 0).all()
