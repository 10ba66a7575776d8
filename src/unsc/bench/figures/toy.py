"""Four overlapping Gaussian classes in the plane: what forgetting one of them does to the regions of the others.

Centres are the corners of a square, so that no class is special. Every method's settings are chosen alike, on
validation samples, and all of it follows from one seed: nothing is chosen by looks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from unsc.batches import as_batch
from unsc.bench.figures.shared.figure import FIGURES, Content, LoneFigure
from unsc.bench.train import fit
from unsc.bench.training.random_state import seeded
from unsc.collect import collect_moments
from unsc.compare.canvas import canvas, save
from unsc.compare.tuning import tune
from unsc.errors import Diverged
from unsc.evaluation import evaluate
from unsc.extras import need
from unsc.methods import Problem, apply, find
from unsc.models import working_copy
from unsc.progress import Progress, quiet
from unsc.request import Request
from unsc.steps.subspace import null_space
from unsc.storage.versions import versions

TITLES = {
    "original": "original",
    "relabel": "random labels, no constraint",
    "unsc_paper": "UNSC, paper's step",
    "unsc": "UNSC, ours",
}
CENTRES = ((-1.5, -1.5), (-1.5, 1.5), (1.5, -1.5), (1.5, 1.5))
FORGOTTEN = 3
_UNITS, _EPOCHS, _LR = 64, 20, 0.1
_SIDE, _CELLS = 5.0, 121
"""The picture goes from `-_SIDE` to `_SIDE`, in `_CELLS` cells each way."""
_SHOWN = 100
"""Test samples of each class in the picture."""


def measure(*, seed: int = 0, tries: int = 20, each: int = 500, progress: Progress = quiet) -> Content:
    """Train on `each` samples of a class, forget one in several ways, and look at regions and test accuracy.

    `tries` are the settings that are tried for each method.
    """
    train, validation, test = (_points(each, 3 * seed + i) for i in range(3))
    original = _train(train, seed)
    retain, forget = _two(train)
    problem = Problem(original, Request.for_classes([FORGOTTEN], len(CENTRES)), forget=forget, retain=retain, seed=seed)
    networks, settings = {"original": original}, {}
    with progress("forgetting", len(TITLES) - 1) as advance:
        for name in list(TITLES)[1:]:
            networks[name], settings[name] = _forgotten(name, problem, validation, tries)
            advance()
    points, labels = test[: _SHOWN * len(CENTRES)]
    return {
        "seed": seed,
        "samples_of_each_class": each,
        "training": {"units": [_UNITS, _UNITS], "epochs": _EPOCHS, "lr": _LR},
        "forgotten": FORGOTTEN,
        "tries": tries,
        "settings": settings,
        "free": _free(original, retain, settings["unsc_paper"]),
        "test": {name: _accuracy(model, test) for name, model in networks.items()},
        "side": _SIDE,
        "regions": {name: _regions(model) for name, model in networks.items()},
        "points": [[round(value, 2) for value in point] for point in points.tolist()],
        "labels": labels.tolist(),
        "versions": versions(),
    }


def of_seed(seed: int, progress: Progress) -> Content:
    return measure(seed=seed, progress=progress)


def draw(content: Content, path: Path) -> None:
    """A panel for each network: regions, with the original's borders, test samples and the accuracy of each class."""
    palette = need("matplotlib.colors", extra="figures").ListedColormap
    forgotten, side = content["forgotten"], content["side"]
    colours = ["#4c86b8", "#d9a441", "#5fa777", "#8e5aa8"]
    regions = content["regions"]
    figure = canvas(3.3 * len(regions), 4.3)
    for i, (name, rows) in enumerate(regions.items()):
        axes = figure.add_subplot(1, len(regions), i + 1)
        cells = [[int(cell) for cell in row] for row in rows]
        axes.imshow(
            cells,
            extent=(-side, side, -side, side),
            origin="lower",
            cmap=palette(colours),
            vmin=0,
            vmax=3,
            alpha=0.35,
            interpolation="nearest",
        )
        if i:
            _borders(axes, regions["original"], side, len(colours))
        for k, colour in enumerate(colours):
            x, y = zip(
                *(p for p, own in zip(content["points"], content["labels"], strict=True) if own == k), strict=True
            )
            label = f"class {k}{' (forgotten)' if k == forgotten else ''}"
            mark = "x" if k == forgotten else "o"
            axes.scatter(x, y, s=9, marker=mark, color=colour, linewidths=0.8, label=label if i == 0 else None)
        test = content["test"][name]
        by_class = "   ".join(f"{k}: {test['by_class'][str(k)]:.0f}" for k in range(len(colours)))
        axes.set_title(
            f"{TITLES.get(name, name)}\nretained {test['retained']:.1f} %, forgotten {test['forgotten']:.1f} %",
            fontsize=10,
        )
        axes.set_xlabel(f"accuracy by class (%)   {by_class}", fontsize=8)
        axes.set(xticks=[], yticks=[], xlim=(-side, side), ylim=(-side, side))
    axes.plot([], [], color="#555555", linewidth=0.7, label="the original's borders")
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    save(figure, path)


def _borders(axes: Any, rows: list[str], side: float, num_classes: int) -> None:
    """The original's borders as thin lines."""
    middles = [(i + 0.5) * 2 * side / len(rows) - side for i in range(len(rows))]
    for k in range(num_classes):
        inside = [[float(int(cell) == k) for cell in row] for row in rows]
        axes.contour(middles, middles, inside, [0.5], colors="#555555", linewidths=0.7)


def _points(each: int, seed: int) -> TensorDataset:
    """`each` samples of every class, the classes in turn."""
    labels = torch.arange(len(CENTRES)).repeat(each)
    noise = torch.randn(len(labels), 2, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(torch.tensor(CENTRES)[labels] + noise, labels)


def _train(data: TensorDataset, seed: int) -> nn.Module:
    with seeded(seed, torch.device("cpu")):
        layers = nn.Linear(2, _UNITS), nn.ReLU(), nn.Linear(_UNITS, _UNITS), nn.ReLU(), nn.Linear(_UNITS, len(CENTRES))
    return fit(nn.Sequential(*layers), *data.tensors, epochs=_EPOCHS, lr=_LR, seed=seed)


def _two(data: TensorDataset) -> tuple[TensorDataset, TensorDataset]:
    """What stays and what is forgotten."""
    gone = data.tensors[1] == FORGOTTEN
    return TensorDataset(*data[~gone]), TensorDataset(*data[gone])  # type: ignore[index]


def _forgotten(name: str, problem: Problem, validation: TensorDataset, tries: int) -> tuple[nn.Module, dict[str, Any]]:
    """What a method makes of the problem with the settings that did best on validation samples, and these."""
    retain, forget = (as_batch(part[:]) for part in _two(validation))
    found = tune(find(name), problem, (retain, forget), tries=tries, seconds=1e9)
    applied = apply(find(name), problem, **found.best.settings)
    if applied.model is None:
        raise Diverged(f"{name} diverged on the toy data: {applied.diverged}; choose another seed")
    return applied.model, applied.settings


def _free(model: nn.Module, retain: TensorDataset, settings: dict[str, Any]) -> dict[str, list[int]]:
    """By layer: how many directions the paper's null space has, and how many there are."""
    moments = collect_moments(model, DataLoader(retain, batch_size=256), num_classes=len(CENTRES))
    energies = {name: settings[name] for name in ("energy", "merge_energy")}
    free = null_space(moments, retain=[k for k in range(len(CENTRES)) if k != FORGOTTEN], **energies).free()
    return {layer.name: [free[layer.name], layer.columns] for layer in moments.layers}


def _accuracy(model: nn.Module, test: TensorDataset) -> dict[str, Any]:
    retain, forget = _two(test)
    found = evaluate(model, retain_test=retain, forget_test=forget)
    by_class = {str(k): value for k, value in found.class_acc.items()}
    return {"retained": found.retain_test_acc, "forgotten": found.forget_test_acc, "by_class": by_class}


@torch.no_grad()
def _regions(model: nn.Module) -> list[str]:
    """The predicted class in every cell, from the lowest row up, a digit each."""
    middles = (torch.arange(_CELLS) + 0.5) * 2 * _SIDE / _CELLS - _SIDE
    y, x = torch.meshgrid(middles, middles, indexing="ij")
    predicted = working_copy(model)(torch.stack([x, y], dim=-1).reshape(-1, 2)).argmax(dim=1).reshape(_CELLS, _CELLS)
    return ["".join(map(str, row)) for row in predicted.tolist()]


FIGURES.add(LoneFigure("toy", of_seed, draw))
