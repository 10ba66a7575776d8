"""Gradients by their factors, against gradients as they are."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from unsc.layers import Weights, find_layers, parameters_of
from unsc.steps.factors import LowRank, add, dense, dot, joined, mixed, own_gradients
from unsc.steps.gradients import gradients_of


class Twice(nn.Module):
    """One layer that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(40, 40), nn.Linear(40, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.fc(self.fc(x).tanh()))


class Words(nn.Module):
    """A layer that is given several rows for each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(40, 50), nn.Linear(50, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.fc(x[:, None].expand(-1, 30, -1).cumsum(dim=1)).relu().mean(dim=1))


class Crossed(nn.Module):
    """Wide layers that are called in another order than they are defined, one of them on both sides of the others."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.around, self.first = (nn.Linear(40, 40) for _ in range(3))
        self.out = nn.Linear(40, 3)

    def forward(self, x: Tensor) -> Tensor:
        inside = self.last(self.around(self.first(x).tanh()).tanh())
        return self.out(self.around(inside.tanh()))


def in_place() -> nn.Module:
    """What follows the wide layers overwrites what they return."""
    wide = nn.Linear(40, 60), nn.ReLU(inplace=True), nn.Linear(60, 50, bias=False), nn.ReLU(inplace=True)
    return nn.Sequential(*wide, nn.Linear(50, 3))


@pytest.mark.parametrize("make", [in_place, Twice, Words, Crossed])
def test_gradients_by_factors_are_those_of_autograd(make: type[nn.Module]) -> None:
    torch.manual_seed(0)
    model = make().double()
    x = torch.randn(5, 40, dtype=torch.float64)
    layers = find_layers(model).layers

    def loss() -> Tensor:
        return model(x).square().sum()

    value, found = own_gradients(model, layers, loss, len(x))
    expected = gradients_of(loss(), parameters_of(model, layers))
    assert value == pytest.approx(loss().item())
    for layer in layers:
        torch.testing.assert_close(dense(found[layer.name]), layer.matrix(expected))
    assert isinstance(found[layers[0].name], LowRank) == (make is not Words), "30 rows of each sample are too many"
    assert torch.is_tensor(found[layers[-1].name])


def test_a_layer_that_is_not_used_has_no_gradient() -> None:
    model = nn.ModuleDict({"used": nn.Linear(40, 40), "unused": nn.Linear(40, 40)})
    layers = find_layers(model).layers
    _, found = own_gradients(model, layers, lambda: model["used"](torch.ones(2, 40)).sum(), 2)
    assert dense(found["used"]).any()
    assert not dense(found["unused"]).any()


def test_factors_do_what_their_products_do() -> None:
    """Products, sums, and moving a layer."""
    g = torch.Generator().manual_seed(1)

    def thin(rank: int) -> LowRank:
        left, right = (torch.randn(shape, generator=g, dtype=torch.float64) for shape in ((1, 6, rank), (1, rank, 9)))
        return LowRank(left, right)

    one, other = thin(2), thin(3)
    assert dot(one, other) == pytest.approx((one.dense() * other.dense()).sum().item())
    assert dot(one, other.dense()) == pytest.approx(dot(one, other))
    torch.testing.assert_close(dense(joined([one, other])), one.dense() + other.dense())
    torch.testing.assert_close(dense(joined([one, other.dense()])), one.dense() + other.dense())
    models = [nn.Linear(8, 6, dtype=torch.float64)]
    models.append(copy.deepcopy(models[0]))
    (layer,) = find_layers(models[0]).layers
    for model, direction in zip(models, (one, one.dense()), strict=True):
        before = layer.matrix(dict(model.named_parameters())).detach()
        add(Weights(model, [layer]), layer, direction, 0.3)
        after = layer.matrix(dict(model.named_parameters())).detach()
        torch.testing.assert_close(after, before + 0.3 * one.dense())


@pytest.mark.parametrize("silent", [0, 3, 7, 8])
def test_units_that_are_told_nothing_may_be_left_out(silent: int) -> None:
    """Few of them, many, or all: products and means are the same."""
    g = torch.Generator().manual_seed(2)
    left, right, other = (
        torch.randn(shape, generator=g, dtype=torch.float64) for shape in ((1, 8, 2), (1, 2, 9), (1, 8, 9))
    )
    left[:, torch.randperm(8, generator=g)[:silent]] = 0
    thin = LowRank(left, right)
    assert dot(thin, other) == pytest.approx((thin.dense() * other).sum().item())
    assert dot(other, thin) == dot(thin, other)
    expected = 0.7 * other + 0.3 * thin.dense()
    torch.testing.assert_close(mixed(other, thin, 0.3), expected)
