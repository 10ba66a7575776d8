"""How layers add up, against autograd on a small network and against brute force."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.layers import Layer, find_layers
from unsc.steps.together import Together, effects, mix_of
from unsc.watch import Watch

KEPT = torch.tensor([True, True, False, True])


def network() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Conv2d(1, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(27, 6), nn.Tanh(), nn.Linear(6, 4)
    return nn.Sequential(*layers).double().eval()


def retained(n: int = 12) -> Batch:
    x = torch.randn(n, 1, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return Batch(x, torch.zeros(n, dtype=torch.long))


def directions(layers: tuple[Layer, ...]) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(2)
    return {x.name: torch.randn(x.groups, x.outputs, x.columns, dtype=torch.float64, generator=g) for x in layers}


def as_parameters(model: nn.Module, layer: Layer, matrix: Tensor) -> dict[str, Tensor]:
    """A matrix in the shape of the layer's parameters, zero elsewhere."""
    made = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    layer.write(matrix, made)
    return made


def exact_gram(model: nn.Module, layers: tuple[Layer, ...], steps: dict[str, Tensor], watch: Watch) -> Tensor:
    """Covariances under the predictions of the derivatives by each layer's length, sample by sample."""
    x, own = retained().inputs, {name: p.detach() for name, p in model.named_parameters()}
    moves = [as_parameters(model, layer, steps[layer.name]) for layer in layers]

    def logits(lengths: Tensor) -> Tensor:
        moved = {n: p - sum(k * m[n] for k, m in zip(lengths, moves, strict=True)) for n, p in own.items()}
        return torch.func.functional_call(model, moved, (x,))[:, KEPT]

    start = torch.zeros(len(layers), dtype=torch.float64)
    slopes = torch.autograd.functional.jacobian(logits, start).unbind(dim=2)
    p = (logits(start) / watch.temperature).softmax(dim=1)
    gram = torch.zeros(len(layers), len(layers), dtype=torch.float64)
    for i, u in enumerate(slopes):
        for j, v in enumerate(slopes):
            gram[i, j] = ((p * u * v).sum(dim=1) - (p * u).sum(dim=1) * (p * v).sum(dim=1)).mean()
    return gram


def mean_gram(model: nn.Module, layers: tuple[Layer, ...], steps: dict[str, Tensor], watch: Watch, n: int) -> Tensor:
    """Over so many random choices."""
    found = [effects(model, layers, steps, [retained()], watch, seed=seed) for seed in range(n)]
    return torch.stack([x.T @ x for x in found]).mean(dim=0)


def test_the_gram_matrix_is_that_of_derivatives_on_average() -> None:
    """Within what the mean of so many random choices leaves; and the weights are what they were."""
    model = network()
    layers, watch = find_layers(model).layers, Watch(model, [retained()], KEPT)
    steps, before = directions(layers), copy.deepcopy(model.state_dict())
    exact = exact_gram(model, layers, steps, watch)
    size = exact.diagonal().sqrt()
    off = (mean_gram(model, layers, steps, watch, 400) - exact) / size[:, None] / size
    assert off.abs().max() < 0.1
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())


def test_one_pass_gives_the_rows_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network()
    layers, watch = find_layers(model).layers, Watch(model, [retained()], KEPT)
    steps, batches = directions(layers), [retained(10), retained(7)]
    at_once = effects(model, layers, steps, batches, watch, seed=0)
    monkeypatch.setattr("unsc.steps.together.slopes", lambda *_: None)
    torch.testing.assert_close(at_once, effects(model, layers, steps, batches, watch, seed=0))
    assert len(at_once) == 5


@pytest.mark.parametrize("mix", [(1.0, 1.0, 1.0), (1.0, 0.0, 2.0), (0.3, 1.5, 0.1)])
def test_a_step_costs_what_the_gram_matrix_says(mix: tuple[float, ...]) -> None:
    """The measured divergence of a short step of all layers is `k.T F k / 2`."""
    model = network()
    layers, watch = find_layers(model).layers, Watch(model, [retained()], KEPT)
    steps = directions(layers)
    gram = mean_gram(model, layers, steps, watch, 400)
    k = torch.tensor(mix, dtype=torch.float64)
    parameters, length = dict(model.named_parameters()), 2e-3
    with torch.no_grad():
        for x, share in zip(layers, mix, strict=True):
            x.write(x.matrix(parameters) - length * share * steps[x.name], parameters)
    assert watch.kl(model) == pytest.approx((length**2 * k @ gram @ k / 2).item(), rel=0.15)


def test_two_measurements_have_the_mean_of_their_costs() -> None:
    g = torch.Generator().manual_seed(3)
    predicted = torch.rand(4, generator=g, dtype=torch.float64)
    one, other = (torch.randn(30, 4, generator=g, dtype=torch.float64) for _ in range(2))
    both = Together.measured(one, predicted).averaged(Together.measured(other, predicted))
    whole = Together.measured(torch.cat([one, other]) / math.sqrt(2), predicted)
    torch.testing.assert_close(both.costs(predicted), whole.costs(predicted))


def test_layers_that_were_measured_as_one_share_what_was_found() -> None:
    """Of 20 layers, two and two were one part; as many parts as layers stay as they are."""
    parts = Together(torch.arange(1.0, 11).double(), torch.eye(10).double())
    found = parts.over(20)
    assert found.excess.tolist() == [float(1 + i // 2) for i in range(20)]
    assert found.correlations[4, 5] == 1 and found.correlations[4, 6] == 0
    assert torch.equal(parts.over(10).excess, parts.excess)


def test_layers_move_by_what_they_gain_for_their_own_cost() -> None:
    """Whatever they have to do with each other; those that gain or cost nothing stay."""
    costs, gains = torch.diag(torch.tensor([1.0, 0.0, 2.0, 4.0]).double()), torch.tensor([-1.0, 1.0, 1.0, 1.0]).double()
    assert mix_of(costs, gains).tolist() == pytest.approx([0.0, 0.0, 0.5, 0.25])
    assert torch.equal(mix_of(costs + 0.3 * (1 - torch.eye(4).double()), gains), mix_of(costs, gains))
    assert not mix_of(costs, -gains.abs()).any()


def test_without_covariances_no_other_mix_gains_more_for_the_same_cost() -> None:
    g = torch.Generator().manual_seed(0)
    costs, gains = (
        torch.diag(torch.rand(5, dtype=torch.float64, generator=g) + 0.1),
        torch.rand(5, generator=g).double(),
    )

    def worth(k: Tensor) -> float:
        return ((gains @ k) / (k @ costs @ k).sqrt()).item()

    best = worth(mix_of(costs, gains))
    assert all(worth(torch.rand(5, dtype=torch.float64, generator=g)) <= best + 1e-9 for _ in range(300))


def test_costs_scale_with_what_is_predicted() -> None:
    """The diagonal is measured over predicted times the prediction; covariances off it are shrunk, all alike."""
    changes = torch.randn(30, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    predicted = torch.tensor([1.0, 2.0, 3.0, 4.0]).double()
    gram = changes.T @ changes
    costs = Together.measured(changes, predicted).costs(predicted)
    torch.testing.assert_close(costs.diagonal(), gram.diagonal())
    off = ~torch.eye(4, dtype=torch.bool)
    shares = costs[off] / gram[off]
    torch.testing.assert_close(shares, shares[0].expand(12))
    assert 0 < shares[0] < 1
    longer = torch.tensor([4.0, 1.0, 1.0, 1.0]).double()
    scaled = Together.measured(changes, predicted).costs(predicted * longer)
    torch.testing.assert_close(scaled, costs * longer.sqrt()[:, None] * longer.sqrt())


def test_layers_alone_are_what_the_curvature_says() -> None:
    predicted = torch.tensor([1.0, 2.0]).double()
    torch.testing.assert_close(Together.alone(2).costs(predicted), torch.diag(predicted))
    torch.testing.assert_close(mix_of(torch.diag(predicted), predicted), torch.ones(2).double())
    assert math.isclose(Together.alone(2).excess.sum().item(), 2)
