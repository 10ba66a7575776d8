"""Slopes of single samples, against gradients of one sample at a time."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, nn

from unsc.layers import Layer, find_layers
from unsc.steps.factors import LowRank, Matrix, dense
from unsc.steps.slopes import slopes

N = 5


class Branches(nn.Module):
    """A grouped convolution, one with borders that wrap around, in-place work, and one linear layer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=False)
        self.second = nn.Conv2d(4, 6, 2, groups=2, padding=1, padding_mode="circular")
        self.third = nn.Linear(6, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.second(torch.relu_(self.first(x))).mean(dim=(2, 3))
        return self.head(self.third(torch.tanh(self.third(x))))


def network() -> nn.Module:
    torch.manual_seed(0)
    return Branches().double().eval()


def samples() -> Tensor:
    return torch.randn(N, 2, 7, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def directions(layers: tuple[Layer, ...]) -> dict[str, Matrix]:
    """Dense ones, and for linear layers one that is given by its factors."""
    g = torch.Generator().manual_seed(2)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=g)

    return {
        x.name: LowRank(drawn(1, x.outputs, 2), drawn(1, 2, x.columns))
        if x.name == "head"
        else drawn(x.groups, x.outputs, x.columns)
        for x in layers
    }


def one_by_one(model: nn.Module, layers: tuple[Layer, ...], along: Mapping[str, Matrix], x: Tensor) -> Tensor:
    """The gradient of each sample alone, times each direction: (samples, layers)."""
    parameters = dict(model.named_parameters())
    rows: list[list[float]] = []
    for one in x.split(1):
        found = torch.autograd.grad(model(one).square().sum(), list(parameters.values()))
        grads = dict(zip(parameters, found, strict=True))
        rows.append([(layer.matrix(grads) * dense(along[layer.name])).sum().item() for layer in layers])
    return torch.tensor(rows, dtype=torch.float64)


def test_slopes_are_gradients_of_single_samples_along_directions() -> None:
    """Also of a module that is called twice."""
    model, x = network(), samples()
    layers = find_layers(model).layers
    along = directions(layers)
    found = slopes(model, layers, along, lambda: model(x).square().sum(), N)
    assert found is not None
    torch.testing.assert_close(found, one_by_one(model, layers, along, x))


def test_a_bias_that_is_not_edited_does_not_count() -> None:
    model, x = network(), samples()
    model.get_parameter("third.bias").requires_grad_(False)
    layers = find_layers(model).layers
    along = directions(layers)
    assert next(layer for layer in layers if layer.name == "third").biases == ()
    found = slopes(model, layers, along, lambda: model(x).square().sum(), N)
    assert found is not None
    model.get_parameter("third.bias").requires_grad_(True)
    torch.testing.assert_close(found, one_by_one(model, layers, along, x))


class Sequences(nn.Module):
    """A linear layer that sees positions first and samples second, or all of them in a row."""

    def __init__(self, flat: bool) -> None:
        super().__init__()
        self.flat, self.inner, self.head = flat, nn.Linear(7, 7), nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        positions = x.flatten(1, 2).unflatten(1, (-1, 7)).transpose(0, 1)[:N]  # as many as samples
        seen = self.inner(positions.flatten(0, 1) if self.flat else positions)
        return self.head(torch.tanh(seen).view(N, -1, 7).mean(dim=0))


@pytest.mark.parametrize("flat", [True, False])
def test_where_samples_are_not_first_nothing_is_said(flat: bool) -> None:
    model, x = Sequences(flat), torch.randn(N, 2, 7, 7)
    layers = find_layers(model).layers
    along = {layer.name: torch.zeros(1, layer.outputs, layer.columns) for layer in layers}
    assert slopes(model, layers, along, lambda: model(x).sum(), N) is None


def test_of_other_kinds_of_modules_nothing_is_said() -> None:
    model = nn.Sequential(nn.Embedding(4, 3), nn.Flatten(), nn.Linear(6, 2))
    layers = find_layers(model).layers
    assert slopes(model, layers, {}, lambda: model(torch.zeros(N, 2, dtype=torch.long)).sum(), N) is None
