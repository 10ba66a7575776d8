"""UNSIR: the noise, and what it does to a class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

from unsc.batches import Batch
from unsc.errors import InvalidData, InvalidRequest
from unsc.methods import NO_DATA, Problem
from unsc.methods.shared.registry import find
from unsc.methods.unsir import learned_noise, unsir
from unsc.request import Request

SETTINGS = {"impair_lr": 0.01, "noise_batches": 1, "batch_size": 64}
NOISE = {"size": 16, "lr": 0.1, "penalty": 0.01}


def _accuracy(model: nn.Module, batch: Batch) -> float:
    with torch.no_grad():
        return (model(batch.inputs).argmax(dim=1) == batch.labels).float().mean().item()


def test_noise_raises_the_loss(digits_problem: Problem) -> None:
    problem = replace(digits_problem, request=Request.for_classes([3, 7], 10), forget=NO_DATA)
    (start, labels), (noise, same) = (learned_noise(problem, steps=n, **NOISE).tensors for n in (0, 40))
    assert torch.equal(start, torch.randn(32, 1, 8, 8, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(labels, same) and labels.tolist() == [3] * 16 + [7] * 16
    before, after = (F.cross_entropy(problem.model(x), labels, reduction="none") for x in (start, noise))
    assert (after > before + 2).all()


def test_a_heavier_penalty_gives_smaller_noise(digits_problem: Problem) -> None:
    light, heavy = (learned_noise(digits_problem, steps=40, **{**NOISE, "penalty": c}).tensors[0] for c in (0.01, 1.0))
    assert heavy.square().mean() < 0.5 * light.square().mean()


def test_the_best_noise_for_a_linear_model() -> None:
    """For logits (w x, 0) and label 0 the goal softplus(-w x) - c x^2 has its top where w sigmoid(-w x) = -2 c x."""
    model = nn.Linear(1, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[2.0], [0.0]]))
    retain = TensorDataset(torch.ones(1, 1), torch.tensor([1]))
    problem = Problem(model, Request.for_classes([0], 2), retain=retain)
    x = learned_noise(problem, size=8, steps=600, lr=0.05, penalty=0.5).tensors[0]
    torch.testing.assert_close(2 * torch.sigmoid(-2 * x), -x, atol=1e-3, rtol=0)
    assert (x < -1).all()


def test_repair_alone_is_training_on_retained_samples() -> None:
    torch.manual_seed(0)
    model, inputs, labels = nn.Linear(4, 3), torch.randn(6, 4), torch.arange(6) % 2 + 1
    problem = Problem(model, Request.for_classes([0], 3), retain=TensorDataset(inputs, labels))
    expected = problem.copy()
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.1, momentum=0.9)
    for _ in range(4):
        optimizer.zero_grad()
        F.cross_entropy(expected(inputs), labels).backward()
        optimizer.step()
    found = unsir(problem, impair_epochs=0, repair_lr=0.1, repair_epochs=4, noise_steps=1)
    torch.testing.assert_close(found(inputs), expected(inputs))
    assert not torch.allclose(found(inputs), model(inputs), atol=0.01)


def test_a_class_is_forgotten_without_its_samples(digits_problem: Problem, digits_parts: dict) -> None:
    model = unsir(replace(digits_problem, forget=NO_DATA), **SETTINGS)
    for part in ("train", "test"):
        assert _accuracy(digits_problem.model, digits_parts[f"forget_{part}"]) > 0.9
        assert _accuracy(model, digits_parts[f"forget_{part}"]) < 0.2
        assert _accuracy(model, digits_parts[f"retain_{part}"]) > 0.95


def test_without_steps_nothing_changes(digits_problem: Problem) -> None:
    still: dict[str, Any] = {"noise_steps": 1, "samples_per_class": 10, "noise_batches": 1, "batch_size": 64}
    no_steps: list[dict[str, Any]] = [{"impair_lr": 0.0, "repair_lr": 0.0}, {"impair_epochs": 0, "repair_epochs": 0}]
    for settings in no_steps:
        model = unsir(digits_problem, **still, **settings)
        assert all(map(torch.equal, model.state_dict().values(), digits_problem.model.state_dict().values()))


def test_what_cannot_be_done_is_refused(digits_problem: Problem) -> None:
    with pytest.raises(InvalidRequest, match="classes only"):
        find("unsir").check(replace(digits_problem, request=Request.for_records(None, 10)))
    words = TensorDataset(torch.tensor([[1, 2]]), torch.tensor([1]))
    with pytest.raises(InvalidData, match="one floating point tensor"):
        unsir(Problem(nn.Embedding(3, 2), Request.for_classes([0], 2), retain=words))
