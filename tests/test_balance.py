"""Once records have gone, unseen samples are given to each class as often as before."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from blobs import blobs, learned, network
from torch import Tensor, nn
from torch.utils.data import Subset, TensorDataset

import unsc
from unsc.balance import levels
from unsc.targets import Unseen


def some_logits(seed: int) -> Tensor:
    return 3 * torch.randn(200, 5, generator=torch.Generator().manual_seed(seed))


def mean_prediction(logits: Tensor) -> Tensor:
    return logits.double().softmax(dim=1).mean(dim=0)


def test_levels_give_the_mean_prediction_that_was_there() -> None:
    before, after = some_logits(0), some_logits(1) + torch.tensor([2.0, 0.0, -3.0, 0.0, 1.0])
    found = levels(before, after)
    torch.testing.assert_close(mean_prediction(after + found), mean_prediction(before), rtol=1e-4, atol=0)
    assert abs(found.sum().item()) < 1e-9


def test_levels_find_what_was_added() -> None:
    """Up to what all classes share there is one answer."""
    added = torch.tensor([0.5, -1.0, 0.25, 0.0, 0.25])
    found = levels(some_logits(0), some_logits(0) - added)
    torch.testing.assert_close(found, added.double(), rtol=0, atol=1e-3)


@pytest.fixture(scope="module")
def points() -> TensorDataset:
    """Of which a part carries a label at random, which can only be learned by heart."""
    x, y = blobs(each=60, classes=6).tensors
    generator = torch.Generator().manual_seed(0)
    wrong = torch.rand(len(y), generator=generator) < 0.3
    return TensorDataset(x, torch.where(wrong, torch.randint(6, y.shape, generator=generator), y))


@pytest.fixture(scope="module")
def parts(points: TensorDataset) -> tuple[Subset[Any], Subset[Any]]:
    """To train on, and for validation."""
    order = torch.randperm(len(points), generator=torch.Generator().manual_seed(1)).tolist()
    return Subset(points, order[:240]), Subset(points, order[240:])


@pytest.fixture(scope="module")
def model(parts: tuple[Subset[Any], Subset[Any]]) -> nn.Module:
    x, y = zip(*parts[0], strict=True)
    return learned(network(6), TensorDataset(torch.stack(x), torch.stack(y)))


class Unbalanced(Unseen):
    keeps_balance: ClassVar[bool] = False


@pytest.mark.filterwarnings("ignore::unsc.errors.NotForgottenWarning")
def test_a_result_says_of_unseen_samples_what_its_metrics_say(
    model: nn.Module, parts: tuple[Subset[Any], Subset[Any]]
) -> None:
    """Balance is nearer than without, the model that is returned has it, and metrics are those of that model."""
    train, validation = parts
    x, y = (torch.stack(column) for column in zip(*validation, strict=True))

    def told(targets: Unseen) -> tuple[unsc.Forgotten, Tensor]:
        result = unsc.forget(model, train, indices=range(60), validation=validation, targets=targets)
        assert result.metrics.stopped != "undone"
        with torch.no_grad():
            return result, result.model(x)

    with torch.no_grad():
        wanted = mean_prediction(model(x))
    (result, logits), (_, others) = told(Unseen()), told(Unbalanced())
    off, without = ((mean_prediction(z) - wanted).abs().max().item() for z in (logits, others))
    assert off < 0.5 * without
    assert result.metrics.records is not None
    assert result.metrics.records.validation is not None
    right = 100 * (logits.argmax(dim=1) == y).double().mean().item()
    assert result.metrics.records.validation.acc == pytest.approx(right, abs=1e-6)
