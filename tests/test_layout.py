"""Convolutions in the layout that processors are fast with: where it is taken, and where the old one stays."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

from unsc.batches import Batch
from unsc.layout import channels_last, keep_layouts

BATCH = Batch(torch.randn(3, 2, 6, 6, generator=torch.Generator().manual_seed(0)), torch.zeros(3, dtype=torch.long))


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 2), nn.Flatten(), nn.Linear(45, 3)).eval()


class Views(nn.Module):
    """A network that takes the memory of its activations for granted."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()

    def forward(self, x: Tensor) -> Tensor:
        x = self.inner.get_submodule("2")(self.inner.get_submodule("0")(x).relu())
        return self.inner.get_submodule("4")(x.view(len(x), -1))


def is_last(model: nn.Module) -> list[bool]:
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    return [m.weight.is_contiguous(memory_format=torch.channels_last) for m in convolutions]


def test_weights_and_outputs_are_the_same() -> None:
    """Also where two modules share a weight."""
    model = network()
    tied = nn.Conv2d(2, 4, 3)
    tied.weight = model[0].weight  # type: ignore[assignment]
    model.append(nn.Identity())
    before, outputs = copy.deepcopy(model.state_dict()), model(BATCH.inputs)
    channels_last(model, BATCH)
    assert is_last(model) == [True, True]
    assert tied.weight is model[0].weight
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    torch.testing.assert_close(model(BATCH.inputs), outputs)


def test_grey_pictures_too_go_through_in_this_layout() -> None:
    """Of one channel both layouts look the same, and what a convolution returns would have the old one."""
    torch.manual_seed(0)
    grey = Batch(torch.randn(3, 1, 6, 6), torch.zeros(3, dtype=torch.long))
    first = nn.Conv2d(1, 4, 3)
    model = nn.Sequential(first, nn.ReLU(), nn.Conv2d(4, 5, 2), nn.Flatten(), nn.Linear(45, 3)).eval()
    before = model(grey.inputs)
    channels_last(model, grey)
    assert first(grey.inputs).is_contiguous(memory_format=torch.channels_last)
    again = copy.deepcopy(model)[0]
    assert again(grey.inputs).is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(model(grey.inputs), before)


@pytest.mark.parametrize("model", [Views().eval(), network().double()], ids=["views", "double"])
def test_a_network_that_does_not_work_with_it_stays_as_it_is(model: nn.Module) -> None:
    batch = Batch(BATCH.inputs.to(next(model.parameters()).dtype), BATCH.labels)
    outputs = model(batch.inputs)
    channels_last(model, batch)
    assert is_last(model) == [False, False]
    assert torch.equal(model(batch.inputs), outputs)


class Every(nn.Module):
    """A mean over positions, and every other pixel: what comes back from them has other strides."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, stride=2, padding=1)
        self.after_first, self.after_second = nn.ReLU(), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.after_first(self.first(x))
        return (self.after_second(self.second(x)) + x[:, :, ::2, ::2]).mean(dim=(2, 3))


def test_gradients_lie_as_the_values_do_and_are_the_same() -> None:
    plain = Every()
    channels_last(plain, BATCH)
    kept = keep_layouts(fx.symbolic_trace(plain))
    last: list[bool] = []

    def note(module: nn.Module, told: Any) -> None:
        last.append(told[0].is_contiguous(memory_format=torch.channels_last))

    found: list[list[Tensor]] = []
    for model in (plain, kept):
        handles = [m.register_full_backward_pre_hook(note) for m in (plain.after_first, plain.after_second)]
        loss = model(BATCH.inputs).square().sum()
        found.append(list(torch.autograd.grad(loss, list(plain.parameters()))))
        for handle in handles:
            handle.remove()
    assert last == [False, False, True, True]
    torch.testing.assert_close(found[1], found[0])
