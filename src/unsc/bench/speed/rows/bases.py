"""Class bases and their merge, against explicit patch matrices and `numpy.linalg.svd`; and that both are the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from unsc.batches import Batch
from unsc.bench.speed import explicit
from unsc.bench.speed.clock import seconds
from unsc.bench.speed.place import Place
from unsc.bench.speed.row import ROWS, Goal, Line, Row
from unsc.collect import collect
from unsc.datasets import read
from unsc.layers import Layer
from unsc.logits import logits_of
from unsc.models import editable_layers, working_copy
from unsc.steps.subspace import Merge, NullSpace, class_basis

ENERGY, MERGE_ENERGY = 0.97, 0.99


@dataclass(frozen=True)
class Bases(Row):
    """The null space of nine classes from all of their rows, apart from forward passes."""

    forget: int = 6
    samples: int = 256
    """Of each class."""
    explicit_classes: int = 3
    """Classes that the explicit way is timed on; the same ones are compared."""
    repeats: int = 3

    def measure(self, place: Place) -> Iterator[Line]:
        yield from self.lines(place.network("alexnet"), place.data("fashion-mnist").train)

    def lines(self, model: nn.Module, train: TensorDataset) -> Iterator[Line]:
        model = working_copy(model)
        kept = [k for k in train.tensors[1].unique().tolist() if k != self.forget]
        batches = {k: of_class(train, k, self.samples) for k in kept}
        layers, _ = editable_layers(model, batches[kept[0]][0])
        some = kept[: self.explicit_classes]
        modules = explicit.layers_of(model)
        rows = [explicit.patch_matrices(model, modules, [b.inputs for b in batches[k]]) for k in some]
        ours, theirs = [], []
        for _ in range(self.repeats):
            ours.append(seconds_without_forward(model, layers, batches))
            took = seconds(lambda: explicit.subspaces(rows, ENERGY, MERGE_ENERGY))
            theirs.append(took * len(kept) / len(some))
        yield Line(
            f"class bases and merge, {len(kept)} classes x {self.samples} samples, AlexNet, without forward passes",
            f"explicit patch matrices and numpy.linalg.svd, timed on {len(some)} classes and scaled",
            tuple(b / a for a, b in zip(ours, theirs, strict=True)),
            unit="times faster",
            goal=Goal("at least", 30),
            noted={"seconds": ours, "explicit_seconds": theirs},
        )
        yield self.difference(model, layers, {k: batches[k] for k in some}, rows)

    def difference(
        self,
        model: nn.Module,
        layers: tuple[Layer, ...],
        batches: dict[int, list[Batch]],
        rows: list[dict[str, Tensor]],
    ) -> Line:
        """How far our projectors are from those of an explicit decomposition in float64, on the same rows."""
        double = [{name: x.double() for name, x in of_class.items()} for of_class in rows]
        wanted = explicit.subspaces(double, ENERGY, MERGE_ENERGY)
        found = null_space(model, layers, batches)
        ours = {x.uses[0].module: found.bases[x.name][0].double().numpy() for x in layers}
        distances = {name: explicit.distance(wanted[name], ours[name]) for name in wanted}
        ranks = {name: [wanted[name].shape[1], ours[name].shape[1]] for name in wanted}
        return Line(
            "largest difference of projectors on the same rows",
            "",
            (max(distances.values()),),
            unit="",
            goal=Goal("at most", 1e-4),
            noted={"distances": distances, "ranks": ranks},
        )


def of_class(train: TensorDataset, label: int, samples: int) -> list[Batch]:
    """The first samples of a class, in batches of 64."""
    own = (train.tensors[1] == label).nonzero().flatten()[:samples]
    return [read(train, chosen.tolist()) for chosen in own.split(64)]


def basis(model: nn.Module, layers: tuple[Layer, ...], batches: list[Batch]) -> dict[str, Tensor]:
    """A class's basis in each layer, from all of its rows."""
    return class_basis(collect(model, layers, batches), ENERGY)


def null_space(model: nn.Module, layers: tuple[Layer, ...], batches: Mapping[int, list[Batch]]) -> NullSpace:
    """Of the classes in `batches`."""
    merge = Merge()
    for label, of_label in batches.items():
        merge.add(label, basis(model, layers, of_label))
    return merge.null_space(MERGE_ENERGY, {})


def seconds_without_forward(model: nn.Module, layers: tuple[Layer, ...], batches: Mapping[int, list[Batch]]) -> float:
    """What the null space takes beyond its forward passes."""
    with torch.no_grad():
        forward = seconds(lambda: [logits_of(model, b) for of_label in batches.values() for b in of_label])
    return max(seconds(lambda: null_space(model, layers, batches)) - forward, 1e-9)


ROWS.add(Bases("bases", 6))
