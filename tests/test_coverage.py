"""Which share of a network is edited, and a warning if that is its head alone."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import unsc
from unsc.batches import Batch
from unsc.coverage import Coverage, coverage, moved
from unsc.errors import HeadOnlyWarning
from unsc.layers import find_layers


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def batch(width: int) -> Batch:
    return Batch(torch.randn(4, width), torch.arange(4) % 2)


def test_shares_are_counted_in_entries_and_in_modules() -> None:
    """Scales of a norm are parameters, but no depth; shares are of all there is."""
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    layers = find_layers(model).layers
    total = 3 * 4 + 4 + 8 + 4 * 2 + 2
    assert coverage(model, layers, batch(3)) == Coverage((total - 8) / total, 2, 2, head_only=False)
    assert coverage(model, layers[1:], batch(3)) == Coverage(10 / total, 1, 2, head_only=True)
    assert coverage(model, layers[:1], batch(3)) == Coverage(16 / total, 1, 2, head_only=False)
    assert coverage(model, (), batch(3)) == Coverage(0.0, 0, 2, head_only=False)


def test_a_network_of_one_layer_is_edited_whole() -> None:
    model = nn.Linear(3, 2)
    assert coverage(model, find_layers(model).layers, batch(3)) == Coverage(1.0, 1, 1, head_only=False)


class Backwards(nn.Module):
    """Uses its modules in another order than they are defined in, one of them twice and one not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.body, self.spare = nn.Linear(3, 2), nn.Linear(3, 3), nn.Linear(3, 3)
        self.shift = nn.Parameter(torch.zeros(1, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.body(x + self.shift)))


def test_depth_is_by_use() -> None:
    """The head is what is used last, whatever its place; a module of parameters and parts begins before its parts."""
    model = Backwards()
    layers = {layer.name: layer for layer in find_layers(model).layers}
    assert coverage(model, [layers["head"]], batch(3)).head_only
    found = coverage(model, [layers["head"], layers["body"]], batch(3))
    assert (found.modules_edited, found.modules, found.head_only) == (2, 3, False)
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_attention_is_one_module() -> None:
    """Its output projection is its own."""
    model = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    layers = find_layers(model).layers
    inputs = Batch(torch.randn(4, 1, 4), torch.arange(4) % 2)

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = model

        def forward(self, x: Tensor) -> Tensor:
            return self.block(x)[:, 0]

    found = coverage(Classifier().eval(), find_layers(Classifier()).layers, inputs)
    assert len(layers) == 6 and (found.modules_edited, found.modules) == (3, 3)


def test_what_did_not_move_was_not_edited() -> None:
    """Rounding is no edit."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.get_parameter("0.weight").mul_(1 + 1e-7)
        other.get_parameter("1.bias").add_(0.1)
    assert [layer.name for layer in moved(model, other, find_layers(model).layers)] == ["1"]


class Scaled(nn.Linear):
    """A layer that the package cannot edit: its output is not `rows @ W.T`."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).mul(2)


@pytest.fixture(scope="module")
def case() -> tuple[nn.Module, TensorDataset]:
    """A network of an odd layer and a head, which knows three classes."""
    torch.manual_seed(0)
    labels = torch.arange(240) % 3
    inputs = torch.randn(240, 6) + 4 * torch.eye(3, 6)[labels]
    model = nn.Sequential(Scaled(6, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return model, TensorDataset(inputs, labels)


def test_forgetting_in_the_head_alone_warns(case: tuple[nn.Module, TensorDataset]) -> None:
    model, data = case
    with pytest.warns(HeadOnlyWarning, match=r"1 of 2 modules .* 31.3% .*0.weight \(Scaled does not return"):
        result = unsc.forget(model, data, classes=[1])
    assert result.metrics.edited == Coverage(51 / 163, 1, 2, head_only=True)
    assert result.metrics.to_dict()["edited"]["head_only"] is True


def test_a_head_that_was_asked_for_does_not_warn(case: tuple[nn.Module, TensorDataset]) -> None:
    model, data = case
    with warnings.catch_warnings():
        warnings.simplefilter("error", HeadOnlyWarning)
        result = unsc.forget(model, data, classes=[1], parameters=("2.weight", "2.bias"))
    assert result.metrics.edited.head_only
