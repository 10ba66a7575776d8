"""The pictures of docs/pictures.md, from a small network that is trained here.

    python docs/site/pictures.py [folder]

A few seconds. Every number that is drawn is measured; `main` returns those that the page quotes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import unsc
from unsc.batches import Batch
from unsc.compare.canvas import canvas, save
from unsc.layers import Layer
from unsc.models import editable_layers, working_copy
from unsc.request import Request
from unsc.steps.budgeted import BudgetedRule, BudgetedStep, forget_gradients
from unsc.steps.factors import dense
from unsc.watch import Watch

CENTRES = torch.tensor([(-1.5, -1.5), (-1.5, 1.5), (1.5, -1.5), (1.5, 1.5)])
FORGOTTEN, MIDDLE = 3, "2"
BLUE, RED, GREY, GREEN = "#2f6db0", "#c0504d", "#8a8a8a", "#4f8f5b"


def points(each: int, seed: int) -> TensorDataset:
    """Samples of four Gaussian classes in the plane."""
    labels = torch.arange(len(CENTRES)).repeat(each)
    noise = torch.randn(len(labels), 2, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(CENTRES[labels] + noise, labels)


def trained(data: TensorDataset) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, len(CENTRES)))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(20):
        for chosen in torch.randperm(len(data)).split(64):
            x, y = data[chosen]
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    return model.eval()


@dataclass(frozen=True)
class Scene:
    """A trained network, with samples that go, samples that stay, and others of those to check on."""

    model: nn.Module
    layers: list[Layer]
    forget: Batch
    targets: Tensor
    """Where samples that go are moved to: the network's own softmax over the classes that stay, (n, 4)."""
    retain: Batch
    check: Batch

    @classmethod
    def make(cls) -> Scene:
        data = points(500, 0)
        model = working_copy(trained(data))
        x, y = data.tensors
        gone, stay = (y == FORGOTTEN).nonzero().flatten(), (y != FORGOTTEN).nonzero().flatten()
        forget, retain, check = (Batch(x[i], y[i]) for i in (gone, stay[:1000], stay[1000:]))
        layers, _ = editable_layers(model, check)
        with torch.no_grad():
            targets = model(forget.inputs).index_fill(1, torch.tensor([FORGOTTEN]), -torch.inf).softmax(dim=1)
        return cls(model, list(layers), forget, targets, retain, check)

    def loader(self, batch: Batch) -> DataLoader:
        return DataLoader(TensorDataset(batch.inputs, batch.labels), batch_size=128)  # type: ignore[arg-type]

    def rows(self, batch: Batch) -> Tensor:
        """What the middle layer multiplies its weight with, a last column of ones for the bias included: (n, 65)."""
        with torch.no_grad():
            hidden = self.model[:2](batch.inputs)  # type: ignore[index]
        return torch.cat([hidden, torch.ones(len(hidden), 1)], dim=1)

    def gradients(self, count: int) -> dict[str, Tensor]:
        """Those of the forget loss of the first `count` samples, by each layer's matrix (1, outputs, columns)."""
        chosen = torch.arange(count)
        found = forget_gradients(self.model, self.layers, self.forget[chosen], self.targets[chosen])[1]
        return {name: dense(gradient) for name, gradient in found.items()}

    def loss(self, model: nn.Module) -> float:
        """The forget loss in nats: KL from the targets."""
        with torch.no_grad():
            logs = model(self.forget.inputs).log_softmax(dim=1)
        return F.kl_div(logs, self.targets, reduction="batchmean").item()

    def watch(self) -> Watch:
        return Watch(self.model, [self.check], Request.for_classes([FORGOTTEN], len(CENTRES)).kept)

    def null_space(self) -> unsc.NullSpace:
        moments = unsc.collect_moments(self.model, self.loader(self.retain), num_classes=len(CENTRES))
        return unsc.null_space(moments, retain=[0, 1, 2])

    def curvature(self) -> unsc.RetainedCurvature:
        retain, check, forget = (self.loader(part) for part in (self.retain, self.check, self.forget))
        return unsc.retained_curvature(self.model, retain, check=check, forgotten=forget, forget=[FORGOTTEN])

    def after(self, steps: Mapping[str, Tensor], length: float, look: Callable[[nn.Module], float]) -> float:
        """What `look` sees of the network after a step of this length; then the step is taken back."""
        parameters = dict(self.model.named_parameters())
        with torch.no_grad():
            before = {x.name: x.matrix(parameters) for x in self.layers}
            for x in self.layers:
                x.write(before[x.name] - length * steps[x.name], parameters)
            seen = look(self.model)
            for x in self.layers:
                x.write(before[x.name], parameters)
        return seen


def inside(matrix: Tensor, basis: Tensor) -> float:
    """The share of a matrix (outputs, columns) in the span of orthonormal columns (columns, r), by energy."""
    return ((matrix @ basis).square().sum() / matrix.square().sum()).item()


def draw_span(scene: Scene, path: Path) -> dict[str, float]:
    """Left a neuron that is trained on inputs in a plane, right the gradients of the real network."""
    figure = canvas(9.0, 4.0)
    axes = figure.add_subplot(1, 2, 1, projection="3d")
    plane = torch.linalg.qr(torch.randn(3, 2, generator=torch.Generator().manual_seed(4)))[0]
    inputs = torch.randn(40, 2, generator=torch.Generator().manual_seed(1)) @ plane.mT
    normal = torch.linalg.cross(plane[:, 0], plane[:, 1])
    weight = (-1.6 * plane[:, 0] - 1.4 * plane[:, 1] + 1.2 * normal).requires_grad_()
    wanted, way = inputs @ (1.5 * plane[:, 0] + plane[:, 1]), [weight.detach().clone()]
    for _ in range(60):
        (gradient,) = torch.autograd.grad((inputs @ weight - wanted).square().mean(), weight)
        weight.data -= 0.15 * gradient
        way.append(weight.detach().clone())
    trail = torch.stack(way)
    corner = torch.tensor([(-2.0, -2.0), (2.0, -2.0), (2.0, 2.0), (-2.0, 2.0), (-2.0, -2.0)]) @ plane.mT
    for lift, colour in ((0.0, GREY), (1.2, BLUE)):
        edge = corner + lift * normal
        axes.plot(*edge.unbind(1), color=colour, lw=1)
    axes.scatter(*inputs.unbind(1), color=GREY, s=8, label="inputs, all in the grey plane")  # type: ignore[arg-type]
    axes.plot(*trail.unbind(1), color=BLUE, lw=2.5, label="the weight while it is trained")
    axes.set(xticks=[], yticks=[], zticks=[])  # type: ignore[call-arg]
    axes.view_init(18, 60)  # type: ignore[attr-defined]
    axes.set_box_aspect(None, zoom=1.3)  # type: ignore[call-arg]
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    axes.set_title("A weight moves parallel to its inputs' span", fontsize=10)
    batch = scene.forget[torch.arange(16)]
    gradient = scene.gradients(16)[MIDDLE][0]
    basis = torch.linalg.svd(scene.rows(batch).mT, full_matrices=False)[0]
    other = torch.linalg.qr(torch.randn(basis.shape, generator=torch.Generator().manual_seed(0)))[0]
    shares = {
        "span of the\n16 inputs": inside(gradient, basis),
        "another space\nof 16 dimensions": inside(gradient, other),
    }
    bars(
        figure.add_subplot(1, 2, 2), shares, "share of the gradient inside (%)", "The gradient of a layer of 65 columns"
    )
    save(figure, path)
    return {"in_span": shares["span of the\n16 inputs"], "moved_out": float(((trail - trail[0]) @ normal).abs().max())}


def bars(axes: Axes, shares: Mapping[str, float], label: str, title: str) -> None:
    drawn = axes.bar(list(shares), [100 * share for share in shares.values()], color=[BLUE, GREY], width=0.5)
    axes.bar_label(drawn, fmt="%.0f")
    axes.set_ylabel(label)
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def draw_null_space(scene: Scene, path: Path) -> dict[str, float]:
    """Left the energy of rows along the directions of a layer, right what a step does to outputs."""
    space = scene.null_space()
    rank = space.ranks[MIDDLE][0]
    kept, gone = scene.rows(scene.check), scene.rows(scene.forget)
    fitted = scene.rows(scene.retain).double()
    vectors = torch.linalg.eigh(fitted.mT @ fitted)[1].flip(1).float()
    energy = {name: (rows @ vectors).square().mean(dim=0) for name, rows in (("stay", kept), ("goes", gone))}
    figure = canvas(9.0, 3.6)
    axes = figure.add_subplot(1, 2, 1)
    axes.semilogy(energy["stay"].clamp(min=1e-9), color=GREY, marker=".", label="samples that stay")
    axes.semilogy(energy["goes"].clamp(min=1e-9), color=RED, marker=".", label="samples of the class that goes")
    axes.axvspan(rank - 0.5, 64.5, color=GREEN, alpha=0.12)
    axes.text(rank + 1, energy["stay"].max().item(), "null space:\nfree to move", va="top", fontsize=9, color=GREEN)
    axes.set(xlabel="direction, by the energy of what stays", ylabel="mean energy of rows", ylim=(1e-7, None))
    axes.set_title(f"{rank} directions hold what stays, {65 - rank} are left", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    gradient = scene.gradients(len(scene.forget))[MIDDLE]
    projected = space.project(MIDDLE, gradient)[0]
    change = {
        name: ((rows @ step.mT).norm() / step.norm() / rows.norm()).item()
        for name, step, rows in (
            ("plain,\nstays", gradient[0], kept),
            ("plain,\ngoes", gradient[0], gone),
            ("projected,\nstays", projected, kept),
            ("projected,\ngoes", projected, gone),
        )
    }
    axes = figure.add_subplot(1, 2, 2)
    drawn = axes.bar(list(change), [100 * x for x in change.values()], color=[GREY, RED, GREY, RED], width=0.6)
    axes.bar_label(drawn, fmt="%.2g")
    axes.set_ylabel("change of outputs (%)")
    axes.set_title("What a step of length 1 does to outputs", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)
    return {"rank": rank, **change}


def draw_budget(scene: Scene, path: Path) -> dict[str, float]:
    """Left what forgetting costs along three directions, right a whole run."""
    budget, watch = BudgetedRule().budget, scene.watch()
    loss, gradients = scene.loss(scene.model), scene.gradients(len(scene.forget))
    space, guide = scene.null_space(), scene.curvature()
    directions = {
        "the gradient": (gradients, GREY),
        "in the null space (the paper)": ({n: space.project(n, g) for n, g in gradients.items()}, GREEN),
        "by its price (ours)": ({n: guide.layers[n].solve(g) for n, g in gradients.items()}, BLUE),
    }
    figure = canvas(9.0, 3.8)
    axes, bought = figure.add_subplot(1, 2, 1), {}
    for name, (steps, colour) in directions.items():
        slope = sum((gradients[n] * step).sum().item() for n, step in steps.items())
        lengths = [loss / slope * 10 ** (-3 + 3 * i / 40) for i in range(41)]
        gains = [loss - scene.after(steps, x, scene.loss) for x in lengths]
        costs = [scene.after(steps, x, watch.kl) for x in lengths]
        axes.loglog(gains, [max(c, 1e-12) for c in costs], color=colour, label=name)
        bought[name] = max((g for g, c in zip(gains, costs, strict=True) if c <= budget), default=0.0)
    axes.axhline(budget, color="black", lw=0.8, ls="--")
    axes.text(0.02, budget * 1.3, "budget of a step", fontsize=8, transform=axes.get_yaxis_transform())
    axes.set(xlabel="forgetting: fall of the forget loss (nats)", ylabel="price: retained KL (nats)", ylim=(1e-7, 1e-1))
    axes.legend(frameon=False, fontsize=8)
    axes.set_title("What the same forgetting costs", fontsize=10)
    draw_run(figure.add_subplot(1, 2, 2), scene, guide, budget)
    save(figure, path)
    return bought


def draw_run(axes: Axes, scene: Scene, guide: unsc.RetainedCurvature, budget: float) -> None:
    """Retained KL and forget accuracy after every step of a run."""
    model, watch = working_copy(scene.model), scene.watch()
    take = BudgetedStep(model, scene.layers, guide, watch, budget=budget)
    cost, known = [0.0], [recognised(model, scene)]
    for chosen in torch.arange(len(scene.forget)).split(128) * 5:
        take(scene.forget[chosen], scene.targets[chosen])
        cost.append(watch.kl(model) / budget)
        known.append(recognised(model, scene))
    axes.plot(known, color=RED, marker=".")
    axes.set_ylabel("class still recognised (%)", color=RED)
    axes.set_xlabel("step")
    right = axes.twinx()
    right.plot(cost, color=GREY, marker=".")
    right.set_ylabel("retained KL so far, in budgets of a step", color=GREY)
    right.set_ylim(0, None)
    axes.set_title("A run: forgetting in small payments", fontsize=10)


@torch.no_grad()
def recognised(model: nn.Module, scene: Scene) -> float:
    """Percent of the samples that go which are still classified as their class."""
    return 100 * (model(scene.forget.inputs).argmax(dim=1) == FORGOTTEN).float().mean().item()


def main(folder: Path) -> dict[str, dict[str, float]]:
    scene = Scene.make()
    made: dict[str, Callable[[Scene, Path], dict[str, float]]] = {
        "span": draw_span,
        "null_space": draw_null_space,
        "budget": draw_budget,
    }
    return {name: draw(scene, folder / f"{name}.png") for name, draw in made.items()}


if __name__ == "__main__":
    for name, numbers in main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs")).items():
        print(name, {key.replace("\n", " "): round(value, 4) for key, value in numbers.items()})
