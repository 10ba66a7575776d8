"""Forgotten outputs count as higher than they are; the pull inside the network is to the nearest retained samples."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import unsc
from unsc.batches import as_batch
from unsc.errors import InvalidRequest
from unsc.request import Request
from unsc.steps.losses import Beyond, Pulled, divergence
from unsc.targets import Gone

FORGOTTEN = 3


def hidden(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return model[:2](x)  # type: ignore[index]


def margin(mass: float) -> Tensor:
    """What a run for the class that ends at this mass adds to the outputs at most."""
    task: Any = SimpleNamespace(
        request=Request.for_classes([FORGOTTEN], 6), aims=SimpleNamespace(goal=Gone(mass), check=torch.zeros(1, 6))
    )
    return Beyond.enough(task).whole


def test_it_is_the_divergence_of_a_network_whose_forgotten_outputs_are_higher(
    model: nn.Module, points: TensorDataset
) -> None:
    x, y = points.tensors
    batch, targets = as_batch((x, y)), torch.rand(len(x), 6).softmax(dim=1)
    for number, share in enumerate((0.25, 0.5, 0.75, 1.0, 1.0)):
        higher, whole = copy.deepcopy(model), margin(0.01)
        with torch.no_grad():
            higher[-1].bias += share * whole  # type: ignore[index, operator]
        loss = Beyond(whole).in_pass(number)
        torch.testing.assert_close(loss(model, batch, targets), divergence(higher, batch, targets))


@pytest.mark.parametrize("mass", [0.3, 0.01, 1e-3])
def test_a_sample_that_holds_the_mass_at_which_a_run_ends_is_still_pushed_as_if_half_known(mass: float) -> None:
    """The others are at their targets: only the forgotten output has a slope, and it is a half instead of the mass."""
    targets = torch.tensor([[0.5, 0.2, 0.1, 0.0, 0.15, 0.05]])
    predicted = (1 - mass) * targets
    predicted[:, FORGOTTEN] = mass
    logits = predicted.log().requires_grad_()
    Beyond(margin(mass), share=1.0).from_logits(logits, targets).backward()
    assert logits.grad is not None
    assert logits.grad[0, FORGOTTEN].item() == pytest.approx(0.5)
    torch.testing.assert_close(logits.grad, torch.where(targets > 0, -0.5 * targets, 0.5))


def test_what_any_mass_is_enough_for_raises_nothing() -> None:
    assert not margin(1.0).any() and not margin(0.5).any()
    assert margin(0.0).isfinite().all()


def test_aims_are_the_features_of_the_nearest_retained_samples(model: nn.Module, points: TensorDataset) -> None:
    """By brute force, sample by sample."""
    x, y = points.tensors
    retained, forgotten = hidden(model, x[y != FORGOTTEN]), hidden(model, x[y == FORGOTTEN])
    learned = Beyond(torch.linspace(0, 1, 6))
    pull = Pulled(learned, model, {"2": retained}, 1.0)
    batch = as_batch((x[y == FORGOTTEN], y[y == FORGOTTEN]))
    aims = pull.aims(batch)["2"]
    for one, aim in zip(forgotten, aims, strict=True):
        order = (retained - one).square().sum(dim=1).argsort()[:3]
        torch.testing.assert_close(aim, retained[order].mean(dim=0))
    targets = torch.full((len(batch), 6), 1 / 6)
    apart = (forgotten - aims).square().mean() / retained.var(dim=0).mean()
    torch.testing.assert_close(pull(model, batch, targets), learned(model, batch, targets) + apart)


def test_less_of_the_class_is_left_in_the_features(model: nn.Module, points: TensorDataset) -> None:
    """Its samples are nearer to retained ones, as that network sees both, than without the pull."""
    x, y = points.tensors
    away = {}
    for weight in (0.0, 1.0):
        result = unsc.forget(model, points, classes=[FORGOTTEN], hidden=weight)
        assert result.ok
        features = hidden(result.model, x)
        away[weight] = torch.cdist(features[y == FORGOTTEN], features[y != FORGOTTEN]).min(dim=1).values.mean().item()
    assert away[1.0] < away[0.0]


def test_it_is_for_classes(model: nn.Module, points: TensorDataset) -> None:
    with pytest.raises(InvalidRequest, match=r"hidden=1\.0 is for classes"):
        unsc.forget(model, points, indices=[0, 50], targets="lowered", hidden=1.0)
    with pytest.raises(InvalidRequest, match="hidden=-1; allowed is a number of at least 0"):
        unsc.forget(model, points, classes=[FORGOTTEN], hidden=-1)
