"""The pull inside the network: to the nearest retained samples, and less of a class is left in the features."""

from __future__ import annotations

import pytest
import torch
from blobs import blobs, learned, network
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import unsc
from unsc.batches import as_batch
from unsc.errors import InvalidRequest
from unsc.steps.losses import Pulled, divergence

FORGOTTEN = 3


@pytest.fixture(scope="module")
def points() -> TensorDataset:
    return blobs(each=40, classes=6)


@pytest.fixture(scope="module")
def model(points: TensorDataset) -> nn.Module:
    return learned(network(6), points)


def hidden(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return model[:2](x)  # type: ignore[index]


def test_aims_are_the_features_of_the_nearest_retained_samples(model: nn.Module, points: TensorDataset) -> None:
    """By brute force, sample by sample."""
    x, y = points.tensors
    retained, forgotten = hidden(model, x[y != FORGOTTEN]), hidden(model, x[y == FORGOTTEN])
    pull = Pulled(model, {"2": retained}, 1.0)
    batch = as_batch((x[y == FORGOTTEN], y[y == FORGOTTEN]))
    aims = pull.aims(batch)["2"]
    for one, aim in zip(forgotten, aims, strict=True):
        order = (retained - one).square().sum(dim=1).argsort()[:3]
        torch.testing.assert_close(aim, retained[order].mean(dim=0))
    targets = torch.full((len(batch), 6), 1 / 6)
    apart = (forgotten - aims).square().mean() / retained.var(dim=0).mean()
    torch.testing.assert_close(pull(model, batch, targets), divergence(model, batch, targets) + apart)


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
