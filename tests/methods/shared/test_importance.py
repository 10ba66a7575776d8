"""Squared gradients against plain loops of autograd, one sample and one label at a time."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.methods.shared.importance import batch_importance, empirical_fisher, true_fisher

NOTHING = lambda: None  # noqa: E731


class Tiny(nn.Module):
    """A convolution, a normalisation and a linear layer, and one parameter that is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 2)
        self.norm = nn.BatchNorm2d(2)
        self.last = nn.Linear(8, 3)
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.norm(self.conv(x))).flatten(1))


@pytest.fixture
def tiny() -> nn.Module:
    torch.manual_seed(0)
    return Tiny().double().eval()


@pytest.fixture
def batch() -> Batch:
    g = torch.Generator().manual_seed(1)
    return Batch(torch.randn(7, 1, 3, 3, generator=g, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 2, 2]))


def gradient(model: nn.Module, value: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    value.backward(retain_graph=True)
    return {n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}


def assert_same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    assert max(v.max() for v in theirs.values()) > 1e-3
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], atol=1e-12, rtol=1e-8)


def test_the_true_fisher_is_the_mean_over_samples_of_the_expectation_over_labels(tiny, batch) -> None:
    expected = {name: torch.zeros_like(p) for name, p in tiny.named_parameters()}
    for x in batch.inputs:
        log_p = tiny(x[None]).log_softmax(dim=1)[0]
        for y in range(3):
            for name, g in gradient(tiny, log_p[y]).items():
                expected[name] += log_p[y].exp().detach() * g**2 / 7
    parts = [batch[torch.arange(4)], batch[torch.arange(4, 7)]]
    assert_same(true_fisher(tiny, parts, NOTHING), expected)


def test_the_true_fisher_of_a_linear_model_has_a_closed_form() -> None:
    """For logits W x the Fisher information of W[k, j] is the mean of p_k (1 - p_k) x_j^2."""
    torch.manual_seed(0)
    model, x = nn.Linear(4, 3, bias=False).double(), torch.randn(6, 4, dtype=torch.float64)
    p = model(x).softmax(dim=1).detach()
    expected = torch.einsum("nk,nj->kj", p * (1 - p), x**2) / 6
    found = true_fisher(model, [Batch(x, torch.zeros(6, dtype=torch.long))], NOTHING)["weight"]
    torch.testing.assert_close(found, expected)


def test_the_empirical_fisher_takes_the_labels_of_the_data(tiny, batch) -> None:
    expected = {name: torch.zeros_like(p) for name, p in tiny.named_parameters()}
    for x, y in zip(batch.inputs, batch.labels, strict=True):
        for name, g in gradient(tiny, F.cross_entropy(tiny(x[None]), y[None])).items():
            expected[name] += g**2 / 7
    assert_same(empirical_fisher(tiny, [batch[torch.arange(5)], batch[torch.arange(5, 7)]], NOTHING), expected)


def test_the_batch_importance_squares_the_mean_gradient(tiny, batch) -> None:
    parts = [batch[torch.arange(4)], batch[torch.arange(4, 7)]]
    squares = [gradient(tiny, F.cross_entropy(tiny(b.inputs), b.labels)) for b in parts]
    expected = {name: (squares[0][name] ** 2 + squares[1][name] ** 2) / 2 for name in squares[0]}
    assert_same(batch_importance(tiny, parts, NOTHING), expected)


def test_frozen_parameters_are_left_out_and_gradients_are_not_left_behind(tiny, batch) -> None:
    tiny.conv.weight.requires_grad_(False)
    found = empirical_fisher(tiny, [batch], NOTHING)
    assert "conv.weight" not in found and "conv.bias" in found
    assert all(p.grad is None for p in tiny.parameters())


def test_inputs_may_be_named(batch) -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(9, 3)

        def forward(self, *, image: Tensor) -> dict[str, Tensor]:
            return {"logits": self.last(image.flatten(1))}

    torch.manual_seed(0)
    model = Named().double()
    found = empirical_fisher(model, [Batch({"image": batch.inputs}, batch.labels)], NOTHING)
    plain = empirical_fisher(nn.Sequential(nn.Flatten(), model.last), [batch], NOTHING)
    torch.testing.assert_close(found["last.weight"], plain["1.weight"])
