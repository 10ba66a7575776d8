"""The end of a network: the same predictions from what is computed once, and the same result of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import unsc
from unsc import ending
from unsc.batches import Batch
from unsc.bench.networks.resnet import ResNet8
from unsc.depth import deeper
from unsc.ending import ended, ending_of, shortened
from unsc.layers import Layer, find_layers
from unsc.logits import AsLogits, logits_of
from unsc.request import Request
from unsc.task import RetainFit, Samples


def photographs(count: int) -> Batch:
    generator = torch.Generator().manual_seed(0)
    return Batch(torch.randn(count, 3, 16, 16, generator=generator), torch.arange(count) % 4)


def network() -> nn.Module:
    torch.manual_seed(0)
    return ResNet8(4, width=0.5).eval()


def last(model: nn.Module, count: int) -> Sequence[Layer]:
    return find_layers(model).layers[-count:]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_the_end_says_what_the_whole_network_says(count: int) -> None:
    """Also where it begins inside of a residual block, and when its weights are changed, which both share."""
    model, batch = network(), photographs(6)
    found = ending_of(model, last(model, count), batch)
    assert found is not None
    given = found.given(batch)
    with torch.no_grad():
        for p in last(model, count)[0].parameters:
            model.get_parameter(p).mul_(1.5)
    torch.testing.assert_close(logits_of(found.end, given), logits_of(model, batch))
    names = {name for layer in last(model, count) for name in layer.parameters}
    assert names <= {name for name, _ in found.end.named_parameters()}


def test_nothing_of_what_comes_before_is_in_the_end() -> None:
    model, batch = network(), photographs(2)
    found = ending_of(model, last(model, 3), batch)
    assert found is not None
    assert not [name for name, _ in found.end.named_parameters() if name.startswith(("conv1", "layer1", "layer2"))]


def test_a_network_whose_first_layer_moves_has_no_end() -> None:
    model = network()
    assert ending_of(model, find_layers(model).layers, photographs(2)) is None


class InTwo(nn.Module):
    """Two layers, and what becomes of the first one's output and the second."""

    def __init__(self, ending: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.second, self.ending = nn.Linear(4, 4), nn.Linear(4, 3), ending

    def forward(self, x: Tensor) -> Tensor:
        return self.ending(self.second, self.first(x))


def by_its_values(second: nn.Module, h: Tensor) -> Tensor:
    """Decides by what it sees, so that no trace of it holds for other samples."""
    return second(h if h.sum() > 0 else -h)


def of_all_samples(second: nn.Module, h: Tensor) -> Tensor:
    """Gives the end something that is not one thing for each sample."""
    return second(h) + h.mean(dim=0)[:3]


class Optional(nn.Module):
    """A network with a setting that calls leave out, which tracing would take for a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.out = nn.ModuleList(nn.Linear(4, 4) for _ in range(3)), nn.Linear(4, 4)

    def forward(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        x = x if scale is None else x * scale
        for layer in self.layers:
            x = layer(x).relu()
        return self.out(x)


class Counting(Optional):
    """The number of samples is a plain number that the end needs, too."""

    def forward(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        count = x.size(0)
        for layer in self.layers:
            x = layer(x).relu()
        return self.out(x.reshape(count, -1))


@pytest.mark.parametrize(
    ("model", "count"),
    [(InTwo(by_its_values), 1), (InTwo(of_all_samples), 1), (Counting(), 2)],
    ids=["decides", "mixes samples", "counts samples"],
)
def test_networks_that_cannot_be_cut_are_used_as_a_whole(model: nn.Module, count: int) -> None:
    batch = Batch(torch.randn(5, 4), torch.zeros(5, dtype=torch.long))
    assert ending_of(model.eval(), last(model, count), batch) is None


def negative() -> nn.Module:
    """Logits that a hook makes of what the network returns."""
    model = network()
    model.register_forward_hook(AsLogits(lambda output: -output))
    return model


@pytest.mark.parametrize(("make", "shape"), [(negative, (3, 16, 16)), (Optional, (4,))])
def test_the_end_takes_and_gives_what_the_network_does(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    """What calls leave out is left out of the end."""
    torch.manual_seed(0)
    model, batch = make().eval(), Batch(torch.randn(6, *shape), torch.arange(6) % 4)
    found = ending_of(model, last(model, 2), batch)
    assert found is not None
    torch.testing.assert_close(logits_of(found.end, found.given(batch)), logits_of(model, batch))


def samples_of(batch: Batch) -> Samples:
    some = batch[torch.arange(4)]
    return Samples(some, some, RetainFit.from_batch(batch), [batch], [batch])


def test_samples_are_what_the_end_is_given() -> None:
    model, batch = network(), photographs(8)
    found = ending_of(model, last(model, 2), batch)
    assert found is not None
    made = ended(samples_of(batch), found, 1 << 30)
    assert made is not None and made.forget_check is made.forget_fit
    few = made.retain_fit.read(torch.arange(3))
    torch.testing.assert_close(logits_of(found.end, few), logits_of(model, batch[torch.arange(3)]))
    assert ended(samples_of(batch), found, 1000) is None


def test_classes_keep_the_whole_network() -> None:
    model, samples = network(), samples_of(photographs(8))
    made, _ = shortened(model, last(model, 2), samples, Request.for_classes([1], 4), 1 << 30)
    assert made is model
    made, _ = shortened(model, last(model, 2), samples, Request.for_records((0, 1), 4), 1 << 30)
    assert made is not model


def test_a_run_on_the_end_is_the_run_on_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights and figures, but for rounding; layers before the end stay as they are, and the result says so."""
    batch = photographs(96)
    data = TensorDataset(batch.inputs, batch.labels)
    validation = TensorDataset(torch.randn(64, 3, 16, 16), torch.arange(64) % 4)

    def run() -> unsc.Forgotten:
        return unsc.forget(network(), data, indices=range(12), validation=validation, max_passes=2, least_gain=0.0)

    short = run()
    monkeypatch.setattr(ending, "ending_of", lambda *_: None)
    whole = run()
    for name, p in whole.model.named_parameters():
        torch.testing.assert_close(short.model.get_parameter(name), p, rtol=1e-4, atol=1e-5)
    assert short.metrics.steps == whole.metrics.steps
    assert short.metrics.retained_kl == pytest.approx(whole.metrics.retained_kl, rel=1e-2, abs=1e-7)
    assert short.metrics.edited == whole.metrics.edited
    assert short.frozen == whole.frozen and "deeper" in short.frozen["conv1.weight"]
    torch.testing.assert_close(short.model.get_parameter("conv1.weight"), network().get_parameter("conv1.weight"))


def test_the_deeper_layers_are_the_last_that_are_used() -> None:
    model = network()
    found = [x.name for x in deeper(model, find_layers(model).layers, 0.5, photographs(2))]
    assert found == ["layer2.0.conv2", "layer3.0.conv1", "layer3.0.conv2", "linear"]


def test_a_small_network_moves_as_a_whole() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    assert len(deeper(model, find_layers(model).layers, 0.5, photographs(2))) == 3
