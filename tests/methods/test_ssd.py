"""Selective synaptic dampening on cases that can be worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Subset, TensorDataset
from typed import tensors_of

from unsc.datasets import size_of
from unsc.errors import InvalidRequest
from unsc.evaluation import evaluate
from unsc.methods import Problem
from unsc.methods.ssd import ssd
from unsc.request import Request


@pytest.fixture(scope="module")
def smaller(digits_problem: Problem) -> Problem:
    """A tenth of it forgotten, as before, but fewer samples, for time."""
    forget, retain = digits_problem.forget, digits_problem.retain
    return replace(digits_problem, forget=Subset(forget, range(20)), retain=Subset(retain, range(180)))


class TwoWeights(nn.Module):
    """Logits (0, w1 x1 + w2 x2)."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([2.0, 3.0], dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        score = x @ self.w
        return torch.stack([torch.zeros_like(score), score], dim=1)


def two_weights() -> tuple[Problem, Tensor, Tensor]:
    """One forgotten sample that uses w1 most, four retained that use w2; and what matters to forgotten and to all.

    The gradient of the loss of label 1 by w is (p - 1) x, with p the probability of class 1.
    """
    forget = torch.tensor([[0.5, 0.1]], dtype=torch.float64)
    retain = torch.tensor([[0.0, 0.5], [0.0, -0.5], [0.1, 0.2], [0.0, 0.3]], dtype=torch.float64)
    model = TwoWeights()
    parts = [TensorDataset(x, torch.ones(len(x), dtype=torch.long)) for x in (forget, retain)]

    def squares(x: Tensor) -> Tensor:
        p = torch.sigmoid(2 * x[:, 0] + 3 * x[:, 1])
        return ((p - 1)[:, None] * x) ** 2

    importance = squares(forget).mean(dim=0), squares(torch.cat([retain, forget])).mean(dim=0)
    return Problem(model, Request.for_classes([0], 2), forget=parts[0], retain=parts[1]), *importance


def test_one_weight_is_dampened_by_the_ratio_of_importances() -> None:
    problem, forgotten, everyone = two_weights()
    ratio = forgotten / everyone
    assert ratio[0] > 3 > ratio[1]  # alpha = 3 selects the first weight alone
    found = ssd(problem, alpha=3.0, dampening=0.5, batch_size=1).get_parameter("w")
    expected = torch.tensor([2.0 * 0.5 / ratio[0], 3.0], dtype=torch.float64)
    torch.testing.assert_close(found.detach(), expected)
    torch.testing.assert_close(problem.model.get_parameter("w").detach(), torch.tensor([2.0, 3.0], dtype=torch.float64))


def test_batches_square_the_mean_gradient() -> None:
    """With batches of 5 all data is one batch, so that only its mean gradient counts."""
    problem, forgotten, _ = two_weights()
    x = torch.cat([tensors_of(problem.retain)[0], tensors_of(problem.forget)[0]])
    p = torch.sigmoid(2 * x[:, 0] + 3 * x[:, 1])
    everyone = ((p - 1)[:, None] * x).mean(dim=0) ** 2
    found = ssd(problem, alpha=0.0, batch_size=5).get_parameter("w").detach()
    weights = torch.tensor([2.0, 3.0], dtype=torch.float64)
    torch.testing.assert_close(found, weights * (everyone / forgotten).clamp(max=1))


@pytest.mark.parametrize("settings", [{"alpha": math.inf}, {"alpha": 0.0, "dampening": 1e9}])
@pytest.mark.parametrize("batch_size", [1, 64])
def test_an_infinite_alpha_or_a_huge_dampening_changes_nothing(
    smaller: Problem, settings: dict, batch_size: int
) -> None:
    model = ssd(smaller, **settings, batch_size=batch_size)
    assert all(map(torch.equal, model.parameters(), smaller.model.parameters()))


def test_no_weight_grows(digits_problem: Problem) -> None:
    model = ssd(digits_problem, alpha=2.0)
    pairs = list(zip(model.parameters(), digits_problem.model.parameters(), strict=True))
    assert all((now.abs() <= before.abs()).all() for now, before in pairs)
    assert any((now != before).any() for now, before in pairs)


def test_forgotten_data_cannot_matter_more_than_its_share_of_all_data_allows(smaller: Problem) -> None:
    """All data holds the forgotten, so I_all >= (n_f / n) I_forgotten: above n / n_f no alpha selects anything."""
    n_f, n_r = size_of(smaller.forget), size_of(smaller.retain)
    above, below = (
        ssd(smaller, alpha=(n_f + n_r) / n_f * factor, batch_size=1).parameters() for factor in (1.001, 0.9)
    )
    assert all(map(torch.equal, above, smaller.model.parameters()))
    assert not all(map(torch.equal, below, smaller.model.parameters()))


def test_on_digits_the_class_is_forgotten_first(digits_problem: Problem, digits) -> None:
    model, again = (ssd(digits_problem, alpha=9.5, dampening=0.1) for _ in range(2))
    assert all(map(torch.equal, model.parameters(), again.parameters()))
    gone = digits.test.tensors[1] == 3
    retained, forgotten = (Subset(digits.test, part.nonzero().flatten().tolist()) for part in (~gone, gone))
    scores = evaluate(model, retain_test=retained, forget_test=forgotten)
    assert scores.forget_test_acc < 20 and scores.retain_test_acc > 85


def test_a_negative_alpha_is_refused(digits_problem: Problem) -> None:
    with pytest.raises(InvalidRequest, match="alpha=-1"):
        ssd(digits_problem, alpha=-1.0)
