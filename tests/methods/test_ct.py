"""Convolution transpose: the same as a network that sees transposed pictures, until it is trained."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from unsc.errors import UnsupportedModel
from unsc.evaluation.accuracy import evaluate
from unsc.methods import Problem
from unsc.methods.ct import ct, transposed
from unsc.request import Request


def test_transposed_kernels_are_a_network_for_transposed_pictures() -> None:
    """Where everything else treats height and width alike."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 3), nn.AdaptiveAvgPool2d(1))
    x = torch.randn(3, 1, 8, 8)
    before = model(x)
    transposed(model)
    assert torch.allclose(model(x.transpose(2, 3)), before, atol=1e-6)
    assert not torch.allclose(model(x), before, atol=1e-3)


def test_what_stays_is_learned_again(digits_problem: Problem) -> None:
    broken, model = (ct(digits_problem, epochs=epochs) for epochs in (0, 3))
    parts = {"retain_test": digits_problem.retain, "forget_test": digits_problem.forget}
    assert evaluate(broken, **parts).retain_test_acc < 80  # type: ignore[arg-type]
    assert evaluate(model, **parts).retain_test_acc > 95  # type: ignore[arg-type]
    assert not model.training


def test_a_network_without_kernels_is_refused() -> None:
    data = TensorDataset(torch.randn(4, 2), torch.tensor([0, 1, 0, 1]))
    with pytest.raises(UnsupportedModel, match="no two-dimensional convolution"):
        ct(Problem(nn.Linear(2, 2), Request.for_records(None, 2), data, data))
