"""The retained curvature against dense matrices, exact Fisher traces and measured divergences."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.collect import collect_moments
from unsc.errors import InvalidData
from unsc.layers import find_layers
from unsc.moments import Moment
from unsc.steps import curvature
from unsc.steps.curvature import (
    LayerCurvature,
    RetainedCurvature,
    assemble,
    choose_damping,
)
from unsc.steps.factors import LowRank
from unsc.steps.gradients import gradients_of
from unsc.steps.sensitivity import sensitivities
from unsc.storage.files import save_tensors
from unsc.watch import Watch

REPEATABLE = settings(max_examples=60, deadline=None, derandomize=True)


def curvature_of(rows: Tensor, sensitivity: float = 1.0, damping: float = 0.1) -> LayerCurvature:
    """The curvature of rows (groups, n, columns), in float64."""
    values, vectors = Moment(rows.shape[0], rows.shape[2]).update(rows).spectrum()
    return LayerCurvature(values / rows.shape[1], vectors, sensitivity, damping)


@REPEATABLE
@given(st.integers(0, 1000), st.integers(1, 12), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_solve_and_kl_are_those_of_the_dense_matrix(seed: int, n: int, b: float, damping: float) -> None:
    """`G (b (A + damping I))^-1` and `b/2 tr(D A D.T)`, with fewer rows than the 6 columns and with more."""
    g = torch.Generator().manual_seed(seed)
    rows = torch.randn(2, n, 6, generator=g, dtype=torch.float64)
    gradient = torch.randn(2, 3, 6, generator=g, dtype=torch.float64)
    curvature = curvature_of(rows, b, damping)
    a = torch.stack([r.T @ r / n for r in rows])
    dense = b * (a + damping * torch.eye(6, dtype=torch.float64))
    expected = torch.linalg.solve(dense, gradient.mT).mT
    torch.testing.assert_close(curvature.solve(gradient), expected, atol=1e-8 / (b * damping), rtol=1e-6)
    torch.testing.assert_close(gradient @ curvature.inverse(), expected, atol=1e-8 / (b * damping), rtol=1e-6)
    trace = sum(torch.trace(d @ m @ d.T).item() for d, m in zip(gradient, a, strict=True))
    assert curvature.kl(gradient) == pytest.approx(b / 2 * trace, rel=1e-9)


def test_a_small_damping_does_not_blow_up_rounding() -> None:
    """Of a gradient along rows, as gradients are, whose largest directions the damping is a millionth of."""
    g = torch.Generator().manual_seed(0)
    rows = torch.randn(1, 300, 64, generator=g, dtype=torch.float64) * torch.logspace(0, -3, 64, dtype=torch.float64)
    rows = rows @ torch.linalg.qr(torch.randn(64, 64, generator=g, dtype=torch.float64))[0]
    gradient = (torch.randn(1, 16, 300, generator=g, dtype=torch.float64) @ rows).float()
    exact = curvature_of(rows, 0.3, 1e-6)
    rounded = exact.to(dtype=torch.float32)
    expected = rounded.to(dtype=torch.float64).solve(gradient.double())
    for found in (rounded.solve(gradient), gradient @ rounded.inverse()):
        assert (found - expected).norm() < 5e-5 * expected.norm()


def linear_model(*, scale: float = 1.0) -> tuple[nn.Linear, Tensor]:
    """A linear softmax model of 5 classes and 400 inputs (n, 4)."""
    torch.manual_seed(0)
    model = nn.Linear(4, 5)
    with torch.no_grad():
        model.weight.mul_(2 * scale)
    return model, torch.randn(400, 4) * torch.tensor([2.0, 1.0, 0.5, 0.1])


def estimated(model: nn.Linear, x: Tensor, watch: Watch, *, draws: int) -> float:
    labels = torch.zeros(len(x), dtype=torch.long)
    moments = collect_moments(model, [(x, labels)], num_classes=5, samples_per_class=len(x)).by_class[0]
    batches = [Batch(part, labels[: len(part)]) for _ in range(draws) for part in x.split(16)]
    generator = torch.Generator().manual_seed(0)
    found = sensitivities(model, find_layers(model).layers, batches, moments, len(x), watch, generator=generator)
    return found[find_layers(model).layers[0].name]


@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize("kept", [[True] * 5, [True, True, False, True, True]])
def test_sensitivities_are_exact_fisher_traces(scale: float, kept: list[bool]) -> None:
    """Sample by sample the trace is `(1 - sum p**2) |x, 1|**2`; 60 draws of 400 labels come within 10 %.

    The large scale makes a network so certain that its predictions are softened.
    """
    model, x = linear_model(scale=scale)
    watch = Watch(model, [Batch(x, torch.zeros(400, dtype=torch.long))], torch.tensor(kept))
    assert (watch.temperature > 1) == (scale > 1)
    exact, energy = 0.0, 0.0
    with torch.no_grad():
        for row in x:
            p = (model(row)[torch.tensor(kept)] / watch.temperature).softmax(dim=0)
            exact += ((1 - p.square().sum()) * (row.square().sum() + 1)).item()
            energy += (row.square().sum() + 1).item()
    assert estimated(model, x, watch, draws=60) == pytest.approx(exact / (5 * energy), rel=0.1)


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_the_predicted_divergence_is_the_measured_one(scale: float) -> None:
    """Over 30 small random displacements of a linear softmax model the mean prediction is within 10 %."""
    model, x = linear_model(scale=scale)
    labels = torch.zeros(400, dtype=torch.long)
    watch = Watch(model, [Batch(x, labels)], torch.ones(5, dtype=torch.bool))
    rows = torch.cat([x, torch.ones(400, 1)], dim=1).double()[None]
    curvature = curvature_of(rows, estimated(model, x, watch, draws=40))
    predicted = measured = 0.0
    g = torch.Generator().manual_seed(1)
    layer = find_layers(model).layers[0]
    start = layer.matrix(dict(model.named_parameters())).detach().clone()
    for _ in range(30):
        moved = 0.02 * scale * torch.randn(start.shape, generator=g)
        layer.write(start + moved, dict(model.named_parameters()))
        predicted += curvature.kl(moved.double())
        measured += watch.kl(model)
    assert predicted > 0
    assert measured == pytest.approx(predicted, rel=0.1)


def gaussian(n: int, seed: int) -> Moment:
    """The moment of Gaussian rows whose variances fall off, (1, n, 48)."""
    g = torch.Generator().manual_seed(seed)
    return Moment(1, 48).update(torch.randn(1, n, 48, generator=g) * torch.linspace(1, 0.1, 48))


def test_few_samples_need_more_damping() -> None:
    """Directions that look free in 12 samples cost others; in 5,000 they are what they seem."""
    gradient = torch.randn(1, 7, 48, generator=torch.Generator().manual_seed(9))
    chosen = {}
    for n in (12, 5000):
        values, vectors = gaussian(n, 0).spectrum()
        found = LayerCurvature((values / n).float(), vectors.float(), 1.0, 0.0)
        made = choose_damping(found, gradient, gaussian(5000, 1), 5000)
        chosen[n] = made.damping
        assert made.sensitivity >= 1
    assert chosen[12] > 10 * chosen[5000]


@pytest.mark.parametrize("n", [12, 40, 200])
def test_the_chosen_damping_buys_the_most(n: int) -> None:
    """No other power of ten, in units of the mean eigenvalue, has a better squared gain per held-out cost."""
    gradient = torch.randn(1, 7, 48, generator=torch.Generator().manual_seed(9)).double()
    fitted, held_out = gaussian(n, 0), gaussian(300, 1)
    a, other = fitted.dense()[0] / n, held_out.dense()[0] / 300
    mean = a.trace() / 48

    def worth(damping: float) -> float:
        step = torch.linalg.solve(a + damping * torch.eye(48, dtype=torch.float64), gradient[0].T).T
        return ((gradient[0] * step).sum() ** 2 / torch.trace(step @ other @ step.T)).item()

    values, vectors = fitted.spectrum()
    made = choose_damping(LayerCurvature(values / n, vectors, 2.0, 0.0), gradient, held_out, 300)
    assert worth(made.damping) == pytest.approx(max(worth(10.0**e * mean.item()) for e in range(-4, 5)), rel=1e-6)
    step = made.solve(gradient)
    assert (2.0 * held_out.quadratic(step).sum() / 300).item() <= 1.000001 * (gradient * step).sum().item()


def test_a_layer_without_input_keeps_a_finite_step() -> None:
    """Rows of zeros, as behind a dead unit, and a zero gradient, give finite steps."""
    dead = Moment(1, 3).update(torch.zeros(1, 8, 3))
    values, vectors = dead.spectrum()
    found = LayerCurvature(values.float(), vectors.float(), 1.0, 0.0)
    assert torch.isfinite(choose_damping(found, torch.ones(1, 2, 3), dead, 8).solve(torch.ones(1, 2, 3))).all()
    alive = curvature_of(torch.randn(1, 8, 3, dtype=torch.float64))
    nothing = torch.zeros(1, 2, 3, dtype=torch.float64)
    assert not choose_damping(alive, nothing, dead, 8).solve(nothing).any()


def test_assembling_uses_each_layers_own_parts() -> None:
    """The mean moment, the layer's sensitivity (at least) and its gradient."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    layers = find_layers(model).layers
    rows = {x.name: torch.randn(1, 20, x.columns) for x in layers}
    moments = {x.name: Moment(1, x.columns).update(rows[x.name]) for x in layers}
    gradients = {x.name: torch.randn(1, x.outputs, x.columns) for x in layers}
    made = assemble(layers, moments, moments, (20, 20), {"0": 3.0, "2": 7.0}, gradients)
    assert made.samples == 20
    for name, b in (("0", 3.0), ("2", 7.0)):
        one, r = made.layers[name], rows[name][0]
        torch.testing.assert_close(one.vectors[0] * one.values @ one.vectors[0].T, r.T @ r / 20, atol=1e-5, rtol=1e-4)
        assert b <= one.sensitivity < 1.001 * b  # the same samples charge no more than was predicted


def test_a_curvature_is_the_same_after_a_file(tmp_path: Path) -> None:
    torch.manual_seed(0)
    curvature = RetainedCurvature(
        {"a.b": curvature_of(torch.randn(2, 9, 4)), "c": curvature_of(torch.randn(1, 2, 4), 3.5, 1e-7)}, 42
    )
    curvature.save(tmp_path / "curvature.safetensors")
    back = RetainedCurvature.load(tmp_path / "curvature.safetensors")
    assert back.samples == 42
    assert list(back.layers) == ["a.b", "c"]
    for name, one in curvature.layers.items():
        assert torch.equal(back.layers[name].values, one.values)
        assert torch.equal(back.layers[name].vectors, one.vectors)
        assert (back.layers[name].sensitivity, back.layers[name].damping) == (one.sensitivity, one.damping)
    assert {m.values.dtype for m in back.to(dtype=torch.float16).layers.values()} == {torch.float16}
    save_tensors(tmp_path / "other.safetensors", {"a": torch.zeros(1)}, {"kind": "null_space"})
    with pytest.raises(InvalidData, match="null_space, not a retained curvature"):
        RetainedCurvature.load(tmp_path / "other.safetensors")


def test_unused_parameters_have_no_gradient() -> None:
    used, unused = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
    found = gradients_of((3 * used).sum(), {"used": used, "unused": unused})
    assert found["used"].tolist() == [3.0, 3.0]
    assert found["unused"].tolist() == [0.0, 0.0, 0.0]


def test_wide_layers_are_solved_on_the_rank_of_the_gradient() -> None:
    """The same step, and the same damping, as for the gradient as a whole: in float64, where nothing is rounded."""
    generator = torch.Generator().manual_seed(2)
    scale = torch.logspace(0, -2, 880)
    rows, others = (torch.randn(1, n, 880, generator=generator) * scale for n in (300, 100))
    thin = LowRank(torch.randn(1, 870, 20, generator=generator), torch.randn(1, 20, 880, generator=generator) * scale)
    gradient = thin.dense()
    held_out = Moment(1, 880).update(others)
    made = choose_damping(curvature_of(rows), thin, held_out, 100)
    assert made.damping == choose_damping(curvature_of(rows), gradient, held_out, 100).damping
    found = made.solve(LowRank(thin.left.double(), thin.right.double())).dense()
    a = rows[0].double().T @ rows[0].double() / 300 + made.damping * torch.eye(880, dtype=torch.float64)
    wanted = torch.linalg.solve(a, gradient[0].double().T).T / made.sensitivity
    assert (found[0].double() - wanted).norm() < 1e-5 * wanted.norm()
    predicted = (gradient[0].double() * wanted).sum() * made.sensitivity
    charged = held_out.quadratic(wanted[None]).sum() / 100 * made.sensitivity**2
    assert made.sensitivity == pytest.approx(max(1.0, (charged / predicted).item()), rel=1e-4)


@pytest.mark.parametrize(("decay", "taken"), [(0.95, 256), (1.0, 800)])
def test_a_wide_layer_takes_few_eigenvectors_only_where_they_hold_the_energy(decay: float, taken: int) -> None:
    """What they leave out is at most a hundredth; where all directions are alike, all are taken."""
    generator = torch.Generator().manual_seed(0)
    turned = torch.linalg.qr(torch.randn(800, 800, generator=generator, dtype=torch.float64))[0]
    values = decay ** torch.arange(800, dtype=torch.float64)
    moment = Moment.from_dense(((turned * values) @ turned.T)[None], 1600)
    gradient = torch.randn(1, 3, 800, generator=generator)
    found, _ = curvature.curvature_of(moment, moment, (1, 1), 1.0, gradient)
    assert found.values.shape == (1, taken)
    assert found.values.sum().item() >= 0.99 * values.sum().item()
