"""Squared gradients of single samples against plain loops of autograd."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.methods.shared.importance import squared_gradients
from unsc.methods.shared.per_sample import sum_of_squares


def one_label(logits: Tensor, _: Tensor) -> Tensor:
    return logits.log_softmax(dim=1)[:, 1].sum()


LOSSES = [lambda logits, labels: F.cross_entropy(logits, labels, reduction="sum"), one_label]


def by_hand(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """One sample and one loss at a time."""
    total = {name: torch.zeros_like(p) for name, p in model.named_parameters() if p.requires_grad}
    for i in range(len(batch)):
        for loss in LOSSES:
            model.zero_grad()
            loss(model(batch.inputs[i : i + 1]), batch.labels[i : i + 1]).backward()
            for name, p in model.named_parameters():
                if p.grad is not None:
                    total[name] += p.grad**2
    model.zero_grad()
    return total


def assert_same(ours: dict[str, Tensor] | None, theirs: dict[str, Tensor]) -> None:
    assert ours is not None and ours.keys() == theirs.keys()
    assert max(v.max() for v in theirs.values()) > 1e-3
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], atol=1e-12, rtol=1e-8)


class Residual(nn.Module):
    """Convolutions of several kinds around a sum, with what follows them done in place."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.grouped = nn.Conv2d(4, 4, (3, 1), padding="same", groups=2, padding_mode="circular")
        self.dilated = nn.Conv2d(4, 4, 2, dilation=2, padding=1)
        self.last = nn.Linear(4, 3)
        self.norm.running_mean, self.norm.running_var = torch.randn(4), torch.rand(4) + 0.5

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.stem(x)), inplace=True)
        x = x + self.dilated(self.grouped(x).relu_())
        return self.last(x.mean(dim=(2, 3)))


def words(*, positions: int = 3) -> nn.Sequential:
    """A linear layer that meets several positions of each sample, and a convolution in one dimension."""
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Conv1d(positions, 2, 3), nn.Flatten(), nn.Linear(6, 3))


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "residual": (Residual, (2, 6, 6)),
    "words": (words, (3, 6)),
    "linear": (lambda: nn.Linear(4, 3), (4,)),
    "normalised": (lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)), (4,)),
}


def made(make: Callable[[], nn.Module], shape: tuple[int, ...], n: int = 5) -> tuple[nn.Module, Batch]:
    torch.manual_seed(0)
    model = make().double().eval()
    return model, Batch(torch.randn(n, *shape, dtype=torch.float64), torch.arange(n) % 3)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("most", [1, 1 << 20], ids=("one by one", "all at once"))
def test_it_is_what_a_loop_over_samples_finds(name: str, most: int) -> None:
    model, batch = made(*CASES[name])
    assert_same(sum_of_squares(model, batch, LOSSES, chunk_bytes=most), by_hand(model, batch))


def test_frozen_parameters_are_left_out_and_no_hook_or_gradient_stays() -> None:
    model, batch = made(*CASES["residual"])
    model.get_parameter("stem.weight").requires_grad_(False)
    model.get_parameter("last.bias").requires_grad_(False)
    found = sum_of_squares(model, batch, LOSSES)
    assert found is not None and not {"stem.weight", "last.bias"} & found.keys()
    assert_same(found, by_hand(model, batch))
    assert all(not m._forward_hooks for m in model.modules()) and all(p.grad is None for p in model.parameters())


class Twice(nn.Module):
    """A layer that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(torch.tanh(self.a(x)))))


class Tied(Twice):
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.b.weight = self.a.weight


class Elsewhere(Twice):
    """A weight that is also used outside of its layer."""

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x)) + x @ self.a.weight


class PositionsFirst(Twice):
    """As many positions as samples, and they come first."""

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(x.transpose(0, 1))).mean(dim=0))


class Scaled(nn.Linear):
    """It does something else with its weight."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight * 2, self.bias)


class Own(nn.Module):
    """A parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.scale = nn.Linear(3, 3), nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x) * self.scale


ELSE: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "twice": (Twice, (3,)),
    "tied": (Tied, (3,)),
    "elsewhere": (Elsewhere, (3,)),
    "positions first": (PositionsFirst, (5, 3)),
    "subclass": (lambda: Scaled(3, 3), (3,)),
    "own parameter": (Own, (3,)),
    "layer norm": (lambda: nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 3)), (3,)),
}


@pytest.mark.parametrize("name", ELSE)
def test_what_it_cannot_do_it_leaves_and_samples_are_taken_one_by_one(name: str) -> None:
    model, batch = made(*ELSE[name])
    assert sum_of_squares(model, batch, LOSSES) is None
    assert_same(squared_gradients(model, batch, LOSSES), by_hand(model, batch))


def test_batch_norm_in_training_mode_is_left() -> None:
    """There a sample's output depends on the others."""
    model, batch = made(*CASES["normalised"])
    assert sum_of_squares(model.train(), batch, LOSSES) is None
