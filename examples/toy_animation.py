# %% [markdown]
"""
# Watch a class being forgotten

Decision regions of four Gaussian classes, ours beside random labels.

    python examples/toy_animation.py [forgetting.gif]

Takes about a minute, and needs matplotlib (`pip install 'unsc[figures]'`).

Both networks start from the same weights and see the same forgotten samples, one batch a frame. Random labels move
whatever the gradient moves, so the regions of the other classes move too. Our step spends a budget of retained
prediction change, so the forgotten region goes to its neighbours and their borders stay. The weights of every step
are recorded by a step rule that wraps ours: that is all it takes to look inside a run.
"""

# %%
from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
import torch.nn.functional as F
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import unsc
from unsc.batches import Batch
from unsc.steps import Step
from unsc.steps.budgeted import BudgetedRule
from unsc.steps.curvature import RetainedCurvature
from unsc.task import Task

CENTRES = torch.tensor([(-1.5, -1.5), (-1.5, 1.5), (1.5, -1.5), (1.5, 1.5)])
FORGOTTEN, EACH, BATCH, LR = 3, 500, 32, 3e-3
FRAMES, SIDE, CELLS = 32, 4.0, 161
COLOURS = ["#4c86b8", "#d9a441", "#5fa777", "#8e5aa8"]

Weights = dict[str, Tensor]


# %% [markdown]
"""
Four classes of points in the plane, and a small network that knows them all.
"""


# %%
def points(seed: int) -> TensorDataset:
    """Samples of every class, the classes in turn."""
    labels = torch.arange(len(CENTRES)).repeat(EACH)
    noise = torch.randn(len(labels), 2, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(CENTRES[labels] + noise, labels)


def trained(data: TensorDataset) -> nn.Module:
    """A small network that knows all four classes."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, len(CENTRES)))
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    for _ in range(20):
        for chosen in torch.randperm(len(data)).split(64):
            x, y = data[chosen]
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    return model


# %% [markdown]
"""
Our step rule, with a look at the weights after every step.
"""


# %%
@dataclass(frozen=True)
class RecordedRule(BudgetedRule):
    """Our step rule, which also remembers the weights after every step."""

    name: ClassVar[str] = "recorded"
    weights: ClassVar[list[Weights]] = []

    def start(self, model: nn.Module, task: Task, guide: RetainedCurvature) -> Step:  # type: ignore[override]
        return Recorded(super().start(model, task, guide), lambda: self.weights.append(copied(model)))


class Recorded(Step):
    """A step, and what to do after it."""

    def __init__(self, step: Step, after: Callable[[], None]) -> None:
        self.step, self.after = step, after

    def __call__(self, batch: Batch, targets: Tensor) -> None:
        self.step(batch, targets)
        self.after()

    def predicted_kl(self, original: nn.Module, edited: nn.Module) -> float:
        return self.step.predicted_kl(original, edited)


def copied(model: nn.Module) -> Weights:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def ours(model: nn.Module, data: TensorDataset) -> list[Weights]:
    rule = RecordedRule()
    result = unsc.forget(model, data, classes=[FORGOTTEN], step=rule, batch_size=BATCH)
    print(result.metrics.promise)
    return rule.weights


# %% [markdown]
"""
The other side: the optimizer that the network was trained with, and labels that are wrong.
"""


# %%
def random_labels(model: nn.Module, data: TensorDataset) -> list[Weights]:
    """The optimizer that the network was trained with, on forgotten samples with random labels of the others."""
    forgotten = data.tensors[0][data.tensors[1] == FORGOTTEN]
    other = copy.deepcopy(model)
    optimizer = torch.optim.Adam(other.parameters(), lr=LR)
    recorded: list[Weights] = []
    generator = torch.Generator().manual_seed(0)
    while len(recorded) < FRAMES:
        for chosen in torch.randperm(len(forgotten), generator=generator).split(BATCH):
            wrong = torch.randint(len(CENTRES) - 1, (len(chosen),), generator=generator)
            optimizer.zero_grad()
            F.cross_entropy(other(forgotten[chosen]), wrong).backward()
            optimizer.step()
            recorded.append(copied(other))
    return recorded


# %% [markdown]
"""
What is drawn of each network: the class of every cell, the borders before, and two accuracies.
"""


# %%
@torch.no_grad()
def regions(model: nn.Module, weights: Weights) -> Tensor:
    """The predicted class in every cell of the picture, (CELLS, CELLS)."""
    middles = torch.linspace(-SIDE, SIDE, CELLS)
    y, x = torch.meshgrid(middles, middles, indexing="ij")
    network = copy.deepcopy(model)
    network.load_state_dict(weights)
    return network(torch.stack([x, y], dim=-1).reshape(-1, 2)).argmax(dim=1).reshape(CELLS, CELLS)


@torch.no_grad()
def accuracy(model: nn.Module, weights: Weights, test: TensorDataset) -> tuple[float, float]:
    """Percent of retained and of forgotten test samples that are right."""
    network = copy.deepcopy(model)
    network.load_state_dict(weights)
    x, y = test.tensors
    right, gone = network(x).argmax(dim=1) == y, y == FORGOTTEN
    return 100 * right[~gone].float().mean().item(), 100 * right[gone].float().mean().item()


def draw_frame(axes: Axes, title: str, model: nn.Module, weights: Weights, test: TensorDataset) -> None:
    axes.clear()
    extent = (-SIDE, SIDE, -SIDE, SIDE)
    cells = regions(model, weights)
    colours = ListedColormap(COLOURS)
    axes.imshow(cells, extent=extent, origin="lower", cmap=colours, vmin=0, vmax=3, alpha=0.4, interpolation="nearest")
    middles = torch.linspace(-SIDE, SIDE, CELLS)
    before = regions(model, model.state_dict())
    for k in range(len(CENTRES)):
        axes.contour(middles, middles, (before == k).float(), [0.5], colors="#444444", linewidths=0.8)
    x, y = test[: 100 * len(CENTRES)]
    for k, colour in enumerate(COLOURS):
        own = x[y == k]
        axes.scatter(own[:, 0], own[:, 1], s=8, color=colour, marker="x" if k == FORGOTTEN else "o", linewidths=0.8)
    retained, forgotten = accuracy(model, weights, test)
    axes.set_title(f"{title}\nretained {retained:.1f} %, forgotten {forgotten:.1f} %", fontsize=11)
    axes.set(xticks=[], yticks=[], xlim=(-SIDE, SIDE), ylim=(-SIDE, SIDE))


def animate(path: Path) -> None:
    train, test = points(0), points(1)
    model = trained(train)
    start = copied(model)
    columns = {"UNSC, ours": ours(model, train), "random labels": random_labels(model, train)}
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    panels = figure.subplots(1, 2)

    def frame(i: int) -> list[Axes]:
        for axes, (title, weights) in zip(panels, columns.items(), strict=True):
            draw_frame(axes, title, model, weights[min(i, len(weights)) - 1] if i else start, test)
        figure.supxlabel(f"step {i}: the purple class is forgotten; lines are the borders before", fontsize=9)
        return list(panels)

    still = [0] * 4
    animation = FuncAnimation(figure, frame, frames=[*still, *range(1, FRAMES + 1), *[FRAMES] * 8], blit=False)
    animation.save(str(path), writer=PillowWriter(fps=6), dpi=80)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


# %%
if __name__ == "__main__":
    named = sys.argv[1] if len(sys.argv) == 2 else "forgetting.gif"  # the kernel of a notebook has more words
    animate(Path(named))
