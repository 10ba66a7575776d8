"""A head whose scores are averaged is a linear layer on averaged inputs, and is repaired and settled as one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from blobs import blobs, learned
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import unsc
from unsc import outputs, repair
from unsc.batches import Batch, as_batch
from unsc.features import Head, head_inputs
from unsc.models import editable_layers
from unsc.outputs import editable_head
from unsc.pooled_head import as_linear, find_pooled_head

FORGOTTEN = 3
HEAD = "3"


class Halved(nn.Module):
    """A network whose logits no layer gives: nothing is known of what comes after its last one."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) / 2


def network(*between: nn.Module) -> nn.Sequential:
    """Four positions with six channels each, a head of one pixel, and perhaps something before the mean."""
    torch.manual_seed(0)
    features = (nn.Linear(6, 24), nn.ReLU(), nn.Unflatten(1, (6, 2, 2)))
    return nn.Sequential(*features, nn.Conv2d(6, 6, 1), *between, nn.AdaptiveAvgPool2d(1), nn.Flatten())


@pytest.fixture(scope="module")
def points() -> TensorDataset:
    return blobs(each=60, classes=6)


@pytest.fixture(scope="module")
def model(points: TensorDataset) -> nn.Module:
    return learned(network(), points)


def test_it_is_the_linear_layer_on_averaged_inputs(model: nn.Module, points: TensorDataset) -> None:
    batch = as_batch(points[:20])
    assert find_pooled_head(model, batch) == HEAD
    convolution = model.get_submodule(HEAD)
    assert isinstance(convolution, nn.Conv2d)
    layer = as_linear(convolution)
    (given,) = head_inputs(model, Head(HEAD, layer), [batch])
    torch.testing.assert_close(layer(given.inputs), model(batch.inputs))


@pytest.mark.parametrize("inputs", [(4, 6), (2, 2, 6), (6,)])
def test_scores_of_tokens_and_scores_before_a_log_softmax(inputs: tuple[int, ...]) -> None:
    """Predictions by the layer found, on averaged inputs, are those of the network."""

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(6, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(x).flatten(1, -2).mean(dim=1) if x.dim() > 2 else self.head(x).log_softmax(dim=1)

    made, batch = Tokens(), Batch(torch.randn(8, *inputs), torch.zeros(8, dtype=torch.long))
    head = editable_head(made, editable_layers(made, batch)[0], batch)
    assert head is not None and head.path == "head"
    (given,) = head_inputs(made, head, [batch])
    torch.testing.assert_close(head.layer(given.inputs).softmax(dim=1), made(batch.inputs).softmax(dim=1))


def test_a_layer_that_returns_more_than_its_outputs_is_none() -> None:
    class Pair(nn.Linear):
        def forward(self, x: Tensor) -> Any:
            return super().forward(x), x

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = Pair(6, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(x)[0]

    assert find_pooled_head(Network(), Batch(torch.randn(8, 6), torch.zeros(8, dtype=torch.long))) is None


def test_what_is_written_to_the_layer_is_in_the_convolution() -> None:
    for layout in (torch.contiguous_format, torch.channels_last):
        convolution = nn.Conv2d(5, 4, 1)
        convolution.weight.data = convolution.weight.data.contiguous(memory_format=layout)
        layer = as_linear(convolution)
        with torch.no_grad():
            layer.weight[2], layer.bias[1] = 7.0, 8.0
        assert convolution.weight[2].eq(7).all() and convolution.bias is not None and convolution.bias[1] == 8


@pytest.mark.parametrize("between", [nn.ReLU(), nn.AvgPool2d(2, stride=1, padding=1), nn.MaxPool2d(2)])
def test_what_is_no_mean_of_its_outputs_is_none(between: nn.Module, points: TensorDataset) -> None:
    assert find_pooled_head(network(between), as_batch(points[:20])) is None


@pytest.mark.parametrize("head", [nn.Conv2d(6, 6, 1, groups=2), nn.Conv2d(6, 6, 2), nn.Conv2d(6, 6, 1, padding=1)])
def test_other_convolutions_are_none(head: nn.Module, points: TensorDataset) -> None:
    changed = network()
    changed[int(HEAD)] = head
    assert find_pooled_head(changed, as_batch(points[:20])) is None


def test_retained_predictions_and_outputs_are_as_with_a_linear_head(
    model: nn.Module, points: TensorDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fit brings predictions nearer than going back alone does, and the forgotten output is settled."""
    found = unsc.forget(model, points, classes=[FORGOTTEN])
    monkeypatch.setattr(outputs, "find_pooled_head", lambda *_: None)
    plain = unsc.forget(model, points, classes=[FORGOTTEN])
    assert found.ok and plain.ok
    assert found.metrics.retained_kl < 0.5 * plain.metrics.retained_kl
    assert plain.metrics.settled_mass is None
    assert found.metrics.settled_mass is not None and found.metrics.settled_mass < found.metrics.forget_mass


def test_its_outputs_cannot_be_dropped(model: nn.Module, points: TensorDataset) -> None:
    with pytest.raises(unsc.UnsupportedModel, match="head that is no Linear"):
        unsc.forget(model, points, classes=[FORGOTTEN], drop_outputs=True)


def test_a_head_that_may_not_be_edited_is_none(model: nn.Module, points: TensorDataset) -> None:
    assert editable_head(model, (), as_batch(points[:20])) is None


def test_without_a_head_layers_go_back(
    model: nn.Module, points: TensorDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = unsc.forget(Halved(model), points, classes=[FORGOTTEN])
    monkeypatch.setattr(repair, "go_back", lambda *_: None)
    plain = unsc.forget(Halved(model), points, classes=[FORGOTTEN])
    assert back.ok and plain.ok
    assert back.metrics.retained_kl < 0.95 * plain.metrics.retained_kl


def test_without_a_head_what_would_bring_the_class_back_is_not_done(
    model: nn.Module, points: TensorDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers are where they are without it, bit for bit."""
    monkeypatch.setattr(
        repair, "go_back", lambda task, working, *_: working.load_state_dict(task.original.state_dict())
    )
    with_it = unsc.forget(Halved(model), points, classes=[FORGOTTEN])
    monkeypatch.setattr(repair, "go_back", lambda *_: None)
    without = unsc.forget(Halved(model), points, classes=[FORGOTTEN])
    assert with_it.ok
    for a, b in zip(with_it.model.parameters(), without.model.parameters(), strict=True):
        assert torch.equal(a, b)
