"""The paper's null space of 99 classes for a ResNet-18 of full width, against an explicit decomposition."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from unsc.batches import Batch
from unsc.bench.networks import ResNet18
from unsc.bench.speed import explicit
from unsc.bench.speed.apart import apart
from unsc.bench.speed.clock import seconds
from unsc.bench.speed.place import Place
from unsc.bench.speed.row import ROWS, Goal, Line, Row
from unsc.bench.speed.rows.bases import ENERGY, MERGE_ENERGY, basis
from unsc.layers import Layer
from unsc.logits import logits_of
from unsc.models import editable_layers, working_copy
from unsc.steps.subspace import Merge

_FIRST = 8
"""Samples that are passed through the network before anything is timed."""


@dataclass(frozen=True)
class ManyClasses(Row):
    """Timed on some classes and scaled, on both sides, apart from forward passes; ours has the last merge in it."""

    classes: int = 99
    timed_classes: int = 1
    samples: int = 256
    width: float = 1.0

    def measure(self, place: Place) -> Iterator[Line]:
        yield from self.lines(place.data("cifar-100").train)

    def lines(self, train: TensorDataset) -> Iterator[Line]:
        images, labels = train.tensors
        chosen = [(labels == k).nonzero().flatten()[: self.samples] for k in range(self.timed_classes)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "images.safetensors"
            save_file({str(k): images[own] for k, own in enumerate(chosen)}, path)
            ours = apart(f"{__name__}:ours", images=str(path), classes=self.classes, width=self.width)
        theirs = self.classes * explicit_seconds(_network(self.width), images[chosen[0]])
        yield Line(
            f"null space of {self.classes} classes, ResNet-18, timed on {self.timed_classes} and scaled, without "
            "forward passes",
            "patch matrices and numpy.linalg.svd, each shape of one class timed once and scaled, without the merge",
            (theirs / ours.given["seconds"],),
            unit="times faster",
            goal=Goal("at least", 100),
            noted={**ours.given, "explicit_seconds": theirs},
        )
        peak = ours.peak_mib / 1024
        yield Line("its peak of memory", "", (peak,), unit="GiB", goal=Goal("at most", 4))


def ours(images: str, classes: int, width: float) -> dict[str, Any]:
    """The null space of the classes in a file, as if there were so many of them."""
    found = load_file(images)
    model = working_copy(_network(width))
    batches = {int(k): [Batch(x, torch.full((len(x),), int(k))) for x in own.split(64)] for k, own in found.items()}
    layers, _ = editable_layers(model, batches[0][0])
    merge, spaces = Merge(), []

    def add(label: int) -> None:
        spaces.append(basis(model, layers, batches[label]))
        merge.add(label, spaces[-1])

    # Not timed: the first pass finds memory and threads. A few samples do, whose bases take no time.
    basis(model, layers, [batches[0][0][torch.arange(_FIRST)]])
    timed = list(batches)
    with torch.no_grad():
        forward = seconds(lambda: [logits_of(model, b) for k in timed for b in batches[k]]) / len(timed)
    each = max(seconds(lambda: [add(k) for k in timed]) / len(timed) - forward, 1e-9)
    _fill(merge, layers, spaces[-1], classes - len(batches))
    last = seconds(lambda: merge.null_space(MERGE_ENERGY, {}))
    ranks = {name: u.shape[2] for name, u in spaces[-1].items()}
    return {
        "seconds": classes * each + last,
        "seconds_per_class": each,
        "forward_per_class": forward,
        "last_merge": last,
        "class_ranks": ranks,
    }


def _fill(merge: Merge, layers: tuple[Layer, ...], like: dict[str, Tensor], classes: int) -> None:
    """Random bases of the ranks that a class has, in the place of further classes: until a layer is full."""
    for i in range(classes):
        short = [x for x in layers if (i + 1) * like[x.name].shape[2] < x.columns]
        if not short:
            return
        made = {x.name: torch.linalg.qr(torch.randn(like[x.name].shape, dtype=torch.float64))[0] for x in short}
        merge.add(1000 + i, made)


def explicit_seconds(model: nn.Module, images: Tensor) -> float:
    """The basis of one class in every layer; of layers with patches of one shape the first is timed."""
    model = working_copy(model)
    modules = explicit.layers_of(model)
    shapes = {name: tuple(x.shape) for name, x in explicit.patch_matrices(model, modules, [images[:1]]).items()}
    timed: dict[tuple[int, ...], float] = {}
    for name, shape in shapes.items():
        if shape not in timed:
            (rows,) = explicit.patch_matrices(model, {name: modules[name]}, images.split(64)).values()
            timed[shape] = seconds(lambda rows=rows: explicit.basis(rows.numpy(), ENERGY))
    return sum(timed[shape] for shape in shapes.values())


def _network(width: float) -> nn.Module:
    torch.manual_seed(0)
    return ResNet18(100, width=width)


ROWS.add(ManyClasses("null-space", 7))
