"""The loss around the original: flat within the null space of what stays, steep outside of it.

Every layer has two random directions, one within the null space and one on its complement, each as long as the layer's
weights. A layer that has no free direction, or nothing but free ones, has no such pair and is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset

from unsc.batches import Batch
from unsc.bench.figures.shared.figure import FIGURES, Content, NetworkFigure
from unsc.bench.figures.shared.subject import Subject
from unsc.collect import collect
from unsc.compare.canvas import canvas, save
from unsc.datasets import read, read_labels
from unsc.errors import EmptyNullSpace, InvalidRequest
from unsc.layers import Layer, parameters_of
from unsc.logits import all_logits
from unsc.models import editable_layers, working_copy
from unsc.progress import Advance, Progress, quiet
from unsc.steps.subspace import Merge, NullSpace, class_basis
from unsc.task import RetainFit

_SAMPLES = 500
"""Retained test samples that the loss is measured on."""


def measure(
    model: nn.Module,
    fitted: Dataset,
    judged: Batch,
    *,
    energy: float = 0.97,
    merge_energy: float = 0.99,
    samples_per_class: int = 256,
    reach: float = 1.0,
    points: int = 11,
    seed: int = 0,
    progress: Progress = quiet,
) -> Content:
    """Mean loss in nats on the samples `judged`, with the null space of the retained training samples `fitted`.

    Both coefficients go from `-reach` to `reach` in an odd number of `points`; 1 is a change as large as the weights.
    """
    if points < 3 or points % 2 == 0:
        raise InvalidRequest(f"points={points}; give an odd number of at least 3, so that the original is one of them")
    bases, layers = class_subspaces(model, fitted, energy, samples_per_class, seed, progress)
    space = bases.null_space(merge_energy, {"energy": energy})
    plane = Plane.span(model, layers, space, seed=seed)
    steps = [round(reach * (2 * i / (points - 1) - 1), 6) for i in range(points)]
    with progress("loss", points * points) as advance:
        loss = [[plane.loss(judged, within, outside, advance) for within in steps] for outside in steps]
    return {
        "retained": list(space.retain),
        "energy": energy,
        "merge_energy": merge_energy,
        "samples_per_class": samples_per_class,
        "samples": len(judged),
        "seed": seed,
        "columns": {x.name: x.groups * x.columns for x in layers},
        "free": space.free(),
        "moved": [x.name for x in plane.layers],
        "coefficients": steps,
        "loss": loss,
    }


def class_subspaces(
    model: nn.Module, fitted: Dataset, energy: float, most: int, seed: int, progress: Progress
) -> tuple[Merge, tuple[Layer, ...]]:
    """The bases of all classes, each of at most `most` samples, merged one class after another."""
    working, labels, generator = working_copy(model), read_labels(fitted), torch.Generator().manual_seed(seed)
    positions: dict[int, Tensor] = {}
    for k in labels.unique().tolist():
        own = (labels == k).nonzero().flatten()
        positions[k] = own[torch.randperm(len(own), generator=generator)[:most]]
    fit = RetainFit(lambda chosen: read(fitted, chosen.tolist()), positions)
    layers, _ = editable_layers(working, next(fit.all()))
    merge = Merge()
    with progress("null space", len(positions)) as advance:
        for k in positions:
            merge.add(k, class_basis(collect(working, layers, fit.of_class(k)), energy))
            advance()
    return merge, layers


def of_subject(subject: Subject) -> Content:
    """The null space of the retained training samples, the loss on some retained test samples."""
    data, classes = subject.scenario, subject.trial.classes
    judged = read(data.test, data.positions("test", classes, most=_SAMPLES)["retain_test"].tolist())
    return measure(subject.original, data.without(classes), judged, progress=subject.progress)


def draw(content: Content, path: Path) -> None:
    """Contours of the loss, each a fixed factor above the next; the original is in the middle."""
    steps, loss = content["coefficients"], content["loss"]
    low = max(min(map(min, loss)), 1e-6)
    high = max(max(map(max, loss)), 1.05 * low)
    levels = [low * (high / low) ** (i / 10) for i in range(11)]
    clipped = [[min(max(value, low), high) for value in row] for row in loss]
    figure = canvas(5.4, 4.6)
    axes = figure.add_subplot()
    axes.contourf(steps, steps, clipped, levels, cmap="Blues", norm="log", alpha=0.6)
    lines = axes.contour(steps, steps, clipped, levels[1:-1], colors="#12508c", linewidths=0.7)
    axes.clabel(lines, fmt="%.2g", fontsize=7, colors="#222222")
    middle = len(steps) // 2
    axes.plot(0, 0, "o", color="#c0392b", markersize=5)
    axes.annotate(f"original: {loss[middle][middle]:.3g}", (0, 0), (6, 5), textcoords="offset points", fontsize=8)
    axes.set_xlabel("within the null space (share of the weights' norm)")
    axes.set_ylabel("outside of it")
    axes.set_title(f"Loss on retained test samples (nats, n = {content['samples']:,})", fontsize=10)
    save(figure, path)


@dataclass(frozen=True)
class Plane:
    """The networks `original + a * within + b * outside`."""

    model: nn.Module
    """A copy, whose weights are overwritten for each point."""
    layers: tuple[Layer, ...]
    """Those that have both directions."""
    centre: dict[str, Tensor]
    """The original's matrix of each layer, (groups, outputs, columns)."""
    within: dict[str, Tensor]
    outside: dict[str, Tensor]

    @classmethod
    def span(cls, model: nn.Module, layers: Iterable[Layer], space: NullSpace, *, seed: int) -> Plane:
        """Random directions from a normal distribution, projected, and scaled to the norm of the layer's matrix."""
        working = working_copy(model)
        generator = torch.Generator().manual_seed(seed)
        named = {name: p.detach() for name, p in working.named_parameters()}
        free = space.free()
        moved = tuple(x for x in layers if 0 < free[x.name] < x.groups * x.columns)
        if not moved:
            raise EmptyNullSpace("no layer has directions both within the null space and outside: nothing to show")
        plane = cls(working, moved, {}, {}, {})
        for layer in moved:
            name, matrix = layer.name, layer.matrix(named).clone()
            here = space.to(matrix.device, matrix.dtype)
            one, other = (torch.randn(matrix.shape, generator=generator).to(matrix) for _ in range(2))
            within, outside = here.project(name, one), other - here.project(name, other)
            plane.centre[name] = matrix
            plane.within[name] = matrix.norm() / within.norm() * within
            plane.outside[name] = matrix.norm() / outside.norm() * outside
        return plane

    @torch.no_grad()
    def loss(self, batch: Batch, within: float, outside: float, advance: Advance) -> float:
        """Mean cross-entropy in nats at these coefficients."""
        parameters = parameters_of(self.model, self.layers)
        for layer in self.layers:
            name = layer.name
            layer.write(self.centre[name] + within * self.within[name] + outside * self.outside[name], parameters)
        batch = batch.for_model(self.model)
        total = F.cross_entropy(all_logits(self.model, batch).double(), batch.labels, reduction="sum").item()
        advance()
        return float(f"{total / len(batch):.6g}")


FIGURES.add(NetworkFigure("contour", of_subject, draw))
