"""Projection away from what only forgotten inputs use, against hand-made inputs and explicit SVDs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Subset, TensorDataset
from typed import tensors_of

from unsc.errors import InvalidRequest
from unsc.evaluation import evaluate
from unsc.methods import Problem
from unsc.methods.svd import svd
from unsc.request import Request


def orthogonal_problem() -> Problem:
    """A linear model whose forgotten inputs lie in columns 4 and 5, retained ones in columns 0 to 3."""
    g = torch.Generator().manual_seed(0)
    retain, forget = torch.zeros(30, 6, dtype=torch.float64), torch.zeros(20, 6, dtype=torch.float64)
    retain[:, :4] = torch.randn(30, 4, generator=g, dtype=torch.float64)
    forget[:, 4:] = torch.randn(20, 2, generator=g, dtype=torch.float64)
    torch.manual_seed(0)
    model = nn.Linear(6, 3, bias=False).double()
    labels = torch.arange(30) % 2
    parts = TensorDataset(forget, torch.full((20,), 2)), TensorDataset(retain, labels)
    return Problem(model, Request.for_classes([2], 3), forget=parts[0], retain=parts[1])


@torch.no_grad()
def test_orthogonal_forgotten_inputs_give_nothing_and_retained_ones_what_they_gave() -> None:
    problem = orthogonal_problem()
    model = svd(problem, alpha_r=7.0, alpha_f=1e12)
    forget, retain = tensors_of(problem.forget)[0], tensors_of(problem.retain)[0]
    torch.testing.assert_close(model(retain), problem.model(retain), atol=1e-12, rtol=0)
    assert problem.model(forget).abs().max() > 0.1
    assert model(forget).abs().max() < 1e-9


@torch.no_grad()
def test_one_direction_is_all_important_whatever_alpha() -> None:
    """A single direction holds all energy, so that its importance is 1: forgotten inputs along it give exactly 0."""
    problem = orthogonal_problem()
    tensors_of(problem.forget)[0][:, 5] = 0
    for alpha_f in (0.01, 1.0, 50.0):
        model = svd(problem, alpha_f=alpha_f)
        assert model(tensors_of(problem.forget)[0]).abs().max() < 1e-12
        torch.testing.assert_close(model.get_parameter("weight")[:, :4], problem.model.get_parameter("weight")[:, :4])
        torch.testing.assert_close(model.get_parameter("weight")[:, 5], problem.model.get_parameter("weight")[:, 5])


@torch.no_grad()
def test_a_vanishing_alpha_f_or_an_all_important_retain_space_changes_nothing() -> None:
    problem = orthogonal_problem()
    for inputs in (tensors_of(problem.forget)[0], tensors_of(problem.retain)[0]):
        inputs += torch.randn(inputs.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    asked: list[dict[str, Any]] = [{"alpha_f": 1e-12}, {"alpha_r": 1e12}]
    for settings in asked:
        torch.testing.assert_close(
            svd(problem, **settings).get_parameter("weight"), problem.model.get_parameter("weight"), atol=1e-8, rtol=0
        )
    assert (svd(problem).get_parameter("weight") - problem.model.get_parameter("weight")).abs().max() > 1e-3


@torch.no_grad()
def test_every_layer_is_projected_by_the_singular_vectors_of_its_inputs() -> None:
    """Against explicit SVDs of patches and inputs; biases and normalisation stay."""
    torch.manual_seed(0)
    conv, norm, last = nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), nn.Linear(12, 4)
    model = nn.Sequential(conv, norm, nn.Tanh(), nn.Flatten(), last).double().eval()
    x, y = torch.randn(24, 2, 3, 3, dtype=torch.float64), torch.arange(24) % 4
    gone = y == 3
    parts = [TensorDataset(x[part], y[part]) for part in (gone, ~gone)]
    found = svd(
        Problem(model, Request.for_classes([3], 4), forget=parts[0], retain=parts[1]), alpha_r=20.0, alpha_f=5.0
    )

    def projector(rows: torch.Tensor, alpha: float) -> torch.Tensor:
        u, s, _ = torch.linalg.svd(rows.T, full_matrices=False)
        share = s**2 / (s**2).sum()
        return u @ torch.diag(alpha * share / ((alpha - 1) * share + 1)) @ u.T

    patches = lambda x: F.unfold(x, 2).transpose(1, 2).flatten(0, 1)  # noqa: E731
    flat = model[:4]
    for layer, rows in ((0, patches), (4, flat)):
        p_f, p_r = projector(rows(x[gone]), 5.0), projector(rows(x[~gone]), 20.0)
        weight = model.get_parameter(f"{layer}.weight").flatten(1)
        expected = weight @ (torch.eye(weight.shape[1], dtype=torch.float64) - (p_f - p_f @ p_r)).T
        torch.testing.assert_close(found.get_parameter(f"{layer}.weight").flatten(1), expected)
        assert (weight - expected).abs().max() > 0.01
        assert torch.equal(found.get_parameter(f"{layer}.bias"), model.get_parameter(f"{layer}.bias"))
    after, before = found.get_submodule("1").state_dict(), norm.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


@torch.no_grad()
def test_few_samples_are_drawn_alike_from_every_class() -> None:
    """Two retained samples in all: one of each class, though one class has nearly all samples.

    The rare class shares the only forgotten direction and so holds half of the energy: its importance for alpha_r = 3
    is 1.5 / (1 + 1), and as much of the forgotten weight stays.
    """
    problem = orthogonal_problem()
    tensors_of(problem.forget)[0][:, 5] = 0
    retain = torch.zeros(50, 6, dtype=torch.float64)
    retain[:-1, 0], retain[-1, 4] = 1.0, 1.0
    labels = torch.cat([torch.zeros(49), torch.ones(1)]).long()
    model = svd(replace(problem, retain=TensorDataset(retain, labels)), alpha_r=3.0, samples=2)
    torch.testing.assert_close(model.get_parameter("weight")[:, 4], 0.75 * problem.model.get_parameter("weight")[:, 4])


def test_on_digits_the_class_is_gone(digits_problem: Problem, digits) -> None:
    model = svd(digits_problem, alpha_f=10.0, samples=300)
    gone = digits.test.tensors[1] == 3
    retained, forgotten = (Subset(digits.test, part.nonzero().flatten().tolist()) for part in (~gone, gone))
    scores = evaluate(model, retain_test=retained, forget_test=forgotten)
    assert scores.forget_test_acc < 5 and scores.retain_test_acc > 90


def test_an_alpha_of_zero_is_refused(digits_problem: Problem) -> None:
    with pytest.raises(InvalidRequest, match="alpha_f=0"):
        svd(digits_problem, alpha_f=0.0)
