"""Fisher forgetting: noise of the stated variance, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.data import Subset, TensorDataset
from typed import tensors_of

from unsc.batches import Batch
from unsc.errors import InvalidRequest
from unsc.evaluation import evaluate
from unsc.methods import Problem
from unsc.methods.fisher import fisher, inverse
from unsc.methods.shared.importance import true_fisher
from unsc.request import Request


def linear_problem(asked: Request) -> Problem:
    """Two linear layers and 40 random samples of 3 classes; 40 hidden units are dead, without any information."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 400), nn.Tanh(), nn.Linear(400, 3)).double()
    with torch.no_grad():
        model.get_parameter("0.weight")[:40] = 0
        model.get_parameter("0.bias")[:40] = 0
    retain = TensorDataset(torch.randn(40, 5), torch.arange(40) % 3)
    return Problem(model, asked, retain=retain)


def differences(problem: Problem, *, alpha: float = 1e-6) -> dict[str, torch.Tensor]:
    original = dict(problem.model.named_parameters())
    return {n: (p - original[n]).detach() for n, p in fisher(problem, alpha=alpha).named_parameters()}


def test_without_noise_records_change_nothing_and_classes_their_own_rows_of_the_head() -> None:
    assert all((d == 0).all() for d in differences(linear_problem(Request.for_records(None, 3)), alpha=0.0).values())
    for name, d in differences(linear_problem(Request.for_classes([1], 3)), alpha=0.0).items():
        changed = d.flatten(1).abs().sum(dim=1) if d.dim() > 1 else d
        assert changed.nonzero().flatten().tolist() == ([1] if name.startswith("2.") else [])


def test_the_noise_has_the_published_variance() -> None:
    """Over many seeds: the mean square over each parameter's units of noise / predicted deviation is 1."""
    problem, alpha = linear_problem(Request.for_records(None, 3)), 1e-3
    data = tensors_of(problem.retain)
    information = true_fisher(problem.model, [Batch(data[0].double(), data[1])], lambda: None)
    predicted = {
        "0.weight": alpha * (1 / (information["0.weight"] + 1e-8)).clamp(max=1e3).mean(dim=1, keepdim=True),
        "0.bias": 10 * alpha * (1 / (information["0.bias"] + 1e-8)).clamp(max=1e3),
        "2.weight": 10 * alpha * (1 / (information["2.weight"] + 1e-8)).clamp(max=1e2).mean(dim=1, keepdim=True),
        "2.bias": 10 * alpha * (1 / (information["2.bias"] + 1e-8)).clamp(max=1e2),
    }
    noise = [differences(replace(problem, seed=s), alpha=alpha) for s in range(30)]
    for name, variance in predicted.items():
        scaled = torch.stack([d[name] for d in noise]) / variance.sqrt()
        n = scaled.numel()
        assert abs(scaled.square().mean() - 1) < 5 * (2 / n) ** 0.5
        assert abs(scaled.mean()) < 5 / n**0.5


def test_a_forgotten_class_starts_again_from_noise() -> None:
    problem = linear_problem(Request.for_classes([1], 3))
    heads = [fisher(replace(problem, seed=s)).get_parameter("2.weight")[1].detach() for s in range(10)]
    fresh = torch.stack(heads)
    assert abs(fresh.square().mean() - 1e-3) < 5e-3 * (2 / fresh.numel()) ** 0.5


def test_power_and_limit() -> None:
    found = inverse(torch.tensor([[1.0, 0.0], [4.0, 16.0]]), power=0.5, limit=100.0)
    torch.testing.assert_close(found, torch.tensor([[5.5, 5.5], [0.375, 0.375]]))
    torch.testing.assert_close(inverse(torch.tensor([0.5, 0.0]), power=1.0, limit=1e3), torch.tensor([2.0, 1e3]))


def test_frozen_parameters_stay() -> None:
    problem = linear_problem(Request.for_classes([1], 3))
    problem.model.get_parameter("0.weight").requires_grad_(False)
    moved = differences(problem)
    assert (moved["0.weight"] == 0).all() and (moved["0.bias"] != 0).any()


def test_on_digits_the_class_is_gone(digits_problem: Problem, digits) -> None:
    model = fisher(digits_problem, alpha=1e-7, samples=32)
    gone = digits.test.tensors[1] == 3
    retained, forgotten = (Subset(digits.test, part.nonzero().flatten().tolist()) for part in (~gone, gone))
    scores = evaluate(model, retain_test=retained, forget_test=forgotten)
    assert scores.forget_test_acc < 5 and scores.retain_test_acc > 95


def test_with_little_noise_a_class_is_hidden_by_its_row_alone(digits_problem: Problem, digits) -> None:
    """Which was replaced; with the original's row the class is there again, as it was."""
    original, model = digits_problem.model, fisher(digits_problem, alpha=1e-9, samples=32)
    gone = Subset(digits.test, (digits.test.tensors[1] == 3).nonzero().flatten().tolist())
    assert evaluate(model, retain_test=gone, forget_test=gone).forget_test_acc < 5
    before = evaluate(original, retain_test=gone, forget_test=gone).forget_test_acc
    with torch.no_grad():
        for ours, theirs in zip(*(m.get_submodule("14").parameters() for m in (model, original)), strict=True):
            ours[3] = theirs[3]
    assert evaluate(model, retain_test=gone, forget_test=gone).forget_test_acc == pytest.approx(before, abs=3)


def test_a_negative_alpha_is_refused(digits_problem: Problem) -> None:
    with pytest.raises(InvalidRequest, match="alpha=-1"):
        fisher(digits_problem, alpha=-1)
