"""Confined steps: no optimizer moves what retained rows give."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.collect import collect_moments
from unsc.layers import Weights, find_layers
from unsc.steps.factors import LowRank
from unsc.steps.paper import Confined, ConfinedStep, PaperRule, PlainStep, confined_step
from unsc.steps.subspace import NullSpace, null_space

OPTIMIZERS: dict[str, Callable[[Iterable[Tensor]], torch.optim.Optimizer]] = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.3),
}


PLAIN: dict[str, Callable[..., Confined]] = {
    "plain": lambda model, layers, spaces: PlainStep(model, layers, spaces, 0.3),
    "optimizer": lambda model, layers, spaces: ConfinedStep(
        model, layers, spaces, lambda p: torch.optim.SGD(p, lr=0.3)
    ),
}
"""Two ways to the same step."""


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1, groups=2), nn.Tanh(), nn.Flatten(), nn.Linear(96, 12), nn.Tanh(), nn.Linear(12, 3)
    ).eval()


def wide() -> nn.Module:
    """With a layer three times wider than eight samples, whose gradient has factors."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(32, 40), nn.Tanh(), nn.Linear(40, 3)).eval()


def data(classes: int = 3, n: int = 24) -> Batch:
    g = torch.Generator().manual_seed(1)
    labels = torch.arange(n) % classes
    directions = torch.randn(classes, 2, 2, 4, 4, generator=g)
    x = torch.einsum("nk,nkchw->nchw", torch.randn(n, 2, generator=g), directions[labels])
    return Batch(x, labels)


def space_of(model: nn.Module, batch: Batch, retain: list[int], energy: float = 0.9) -> NullSpace:
    moments = collect_moments(model, [batch], num_classes=3)
    return null_space(moments, retain=retain, energy=energy, merge_energy=energy)


def matrices(model: nn.Module) -> dict[str, Tensor]:
    with torch.no_grad():
        return {x.name: x.matrix(dict(model.named_parameters())) for x in find_layers(model).layers}


def change(space: NullSpace, before: dict[str, Tensor], after: dict[str, Tensor]) -> dict[str, float]:
    """How far each layer moves the rows of its retained basis, relative to what it made of them before."""
    moved = {n: (space.bases[n].mT @ (after[n] - before[n]).mT).norm() for n in before}
    return {n: (moved[n] / (space.bases[n].mT @ before[n].mT).norm()).item() for n in before}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_no_optimizer_moves_rows_of_the_retained_basis(name: str) -> None:
    """After many steps, momentum and weight decay included; the same optimizer does move them if it is not confined."""
    batch = data()
    forgotten, targets = batch[batch.labels == 2], torch.eye(3)[[0] * 8]
    model = network()
    space = space_of(model, batch, [0, 1])
    before = matrices(model)
    step = ConfinedStep(model, find_layers(model).layers, space, OPTIMIZERS[name])
    for _ in range(60):
        step(forgotten, targets)
    free = network()
    optimizer = OPTIMIZERS[name](free.parameters())
    for _ in range(60):
        optimizer.zero_grad()
        F.cross_entropy(free(forgotten.inputs), targets).backward()
        optimizer.step()
    assert max(change(space, before, matrices(model)).values()) < 1e-4
    assert min(change(space, before, matrices(free)).values()) > 1e-2
    assert min((matrices(model)[n] - before[n]).norm().item() for n in before) > 1e-2
    assert (model(forgotten.inputs).argmax(dim=1) == 0).all()


def test_with_all_energy_kept_retained_predictions_do_not_move() -> None:
    """Theorem 1, end to end: every retained sample keeps its logits while forgotten ones change theirs."""
    batch = data(n=15)
    model = wide()
    before = copy.deepcopy(model)
    space = space_of(model, batch, [0, 1], energy=1.0)
    step = ConfinedStep(model, find_layers(model).layers, space, OPTIMIZERS["momentum"])
    forgotten = batch[batch.labels == 2]
    for _ in range(40):
        step(forgotten, torch.eye(3)[[1] * len(forgotten)])
    kept = batch[batch.labels != 2].inputs
    with torch.no_grad():
        torch.testing.assert_close(model(kept), before(kept), atol=1e-4, rtol=0)
        assert (model(forgotten.inputs) - before(forgotten.inputs)).abs().max() > 1


@pytest.mark.parametrize("make", [network, wide])
@pytest.mark.parametrize("way", PLAIN)
def test_plain_sgd_is_the_papers_update(way: str, make: Callable[[], nn.Module]) -> None:
    """Eq. 12: `W - lr G P`, with the gradient from autograd and the projector written out."""
    batch, model = data(), make().double()
    batch = Batch(batch.inputs.double(), batch.labels)
    space = space_of(model, batch, [0, 1])
    forgotten, targets = batch[batch.labels == 2], torch.eye(3, dtype=torch.float64)[[0] * 8]
    before, plain = matrices(model), copy.deepcopy(model)
    F.cross_entropy(plain(forgotten.inputs), targets).backward()
    named = {name: p.grad for name, p in plain.named_parameters()}
    PLAIN[way](model, find_layers(model).layers, space)(forgotten, targets)
    for layer in find_layers(model).layers:
        u = space.bases[layer.name].double()
        projector = torch.eye(layer.columns, dtype=torch.float64) - u @ u.mT
        expected = before[layer.name] - 0.3 * layer.matrix(named) @ projector  # type: ignore[arg-type]
        torch.testing.assert_close(matrices(model)[layer.name], expected, atol=1e-13, rtol=0)


def test_a_projected_product_is_the_projection_of_the_product() -> None:
    torch.manual_seed(0)
    basis = torch.linalg.qr(torch.randn(1, 9, 4))[0]
    space, thin = NullSpace({"x": basis}, {"x": (4,)}, (0,)), LowRank(torch.randn(1, 7, 2), torch.randn(1, 2, 9))
    found = space.project("x", thin)
    assert isinstance(found, LowRank)
    torch.testing.assert_close(found.dense(), space.project("x", thin.dense()))
    assert (found.dense() @ basis).norm() < 1e-5


def test_a_rule_with_an_optimizer_steps_by_it_and_one_without_by_its_gradient() -> None:
    model, batch = network(), data()
    task: Any = SimpleNamespace(layers=find_layers(model).layers)
    space = space_of(model, batch, [0, 1])
    plain = PaperRule(lr=0.3).start(model, task, space)
    assert isinstance(plain, PlainStep) and plain.lr == 0.3
    other = PaperRule(optimizer=torch.optim.Adam).start(model, task, space)
    assert isinstance(other, ConfinedStep) and type(other.optimizer) is torch.optim.Adam


@pytest.mark.parametrize("way", PLAIN)
def test_records_of_several_classes_are_each_confined_to_their_own_null_space(way: str) -> None:
    """A mixed batch moves the network by a step for each label in turn, each projected by that label's space."""
    batch, model = data(n=12), network()
    targets = torch.eye(3)[(batch.labels + 1) % 3]
    spaces = {k: space_of(model, batch, [j for j in range(3) if j != k]) for k in (0, 2)}
    expected, oracle = matrices(model), copy.deepcopy(model)
    for k in (0, 2):
        chosen = batch.labels == k
        oracle.zero_grad()
        (F.cross_entropy(oracle(batch.inputs[chosen]), targets[chosen], reduction="sum") / 12).backward()
        grads = {name: p.grad for name, p in oracle.named_parameters()}
        for layer in find_layers(oracle).layers:
            u = spaces[k].bases[layer.name]
            moved = -0.3 * layer.matrix(grads) @ (torch.eye(layer.columns) - u @ u.mT)  # type: ignore[arg-type]
            assert (moved @ u).norm() < 1e-5
            expected[layer.name] = expected[layer.name] + moved
            layer.write(expected[layer.name], dict(oracle.named_parameters()))
    PLAIN[way](model, find_layers(model).layers, spaces)(batch, targets)
    for name, matrix in matrices(model).items():
        torch.testing.assert_close(matrix, expected[name], atol=1e-5, rtol=1e-5)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0].mean(dim=1)


def test_parts_of_a_parameter_outside_every_layer_do_not_move() -> None:
    """Query, key and value share one parameter; only the value is a layer here."""
    torch.manual_seed(0)
    model = Attention()
    layers = [x for x in find_layers(model).layers if x.name.endswith(".v")]
    assert len(layers) == 1
    columns = layers[0].columns
    nothing_retained = NullSpace({layers[0].name: torch.zeros(1, columns, 1)}, {layers[0].name: (0,)}, (0,))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, weight_decay=0.1)
    F.cross_entropy(model(torch.randn(6, 3, 4)), torch.arange(6) % 4).backward()
    confined_step(optimizer, layers, Weights(model, layers), nothing_retained)
    after = dict(model.named_parameters())
    for name in ("attention.in_proj_weight", "attention.in_proj_bias"):
        assert torch.equal(after[name][:8], before[name][:8])
        assert (after[name][8:] - before[name][8:]).abs().max() > 1e-3
