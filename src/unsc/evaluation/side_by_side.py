"""Networks side by side, on the same samples: what a report shows of a request, as plain values for one file.

Accuracy by class, where forgotten samples went, an attack on membership, and a map of the features before and after.
`docs/report.md` describes the file; whoever carries out a request may write it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from unsc.datasets import read, read_batches
from unsc.errors import UnscError, UnsupportedModel
from unsc.evaluation.shared.roc import roc
from unsc.features import layer_inputs
from unsc.logits import all_logits
from unsc.models import working_copy
from unsc.request import Request, of_classes
from unsc.result import RunMetrics
from unsc.targets import Scores

FILE = "report-data.json"
KIND, VERSION = "unsc report data", 1
Role: TypeAlias = Literal["original", "retrained", "control", "method", "result"]
Data: TypeAlias = Literal["test data", "validation data", "training data"]
"""What samples are; only those of the first two were never trained on."""

_MOST, _MAPPED = 4096, 400
"""Samples to look at, and samples of the map, at most."""
_POINTS = 128
"""Of a curve, about."""


@dataclass(frozen=True)
class Network:
    """A network to show."""

    name: str
    title: str
    role: Role
    """`result` is what the request led to, `method` another way to forget, `control` what only looks like it."""
    model: nn.Module
    seconds: float | None = None
    """What it took to make it."""
    drift: float | None = None
    """Largest relative change of a layer's outputs on retained rows, against the original."""


@dataclass(frozen=True)
class Part:
    """Samples of a map-style data set, read when they are needed."""

    dataset: Dataset[Any]
    positions: Tensor
    """int64 (n,)."""
    labels: Tensor
    """Theirs, int64 (n,)."""

    @classmethod
    def some(cls, dataset: Dataset[Any], labels: Tensor, chosen: Tensor | None = None, *, most: int = _MOST) -> Part:
        """Of a data set with these `labels` (all,), those at the positions `chosen`, `most` of them drawn at random."""
        positions = _drawn(torch.arange(len(labels)) if chosen is None else chosen, most)
        return cls(dataset, positions, labels[positions])

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, mask: Tensor) -> Part:
        return Part(self.dataset, self.positions[mask], self.labels[mask])

    @torch.no_grad()
    def scores(self, model: nn.Module) -> Scores:
        """What a working copy says of them, on the CPU."""
        batches = read_batches(self.dataset, self.positions, size=256)
        logits = [all_logits(model, batch.for_model(model)).float().cpu() for batch in batches]
        return Scores(torch.cat(logits), self.labels)


def side_by_side(
    networks: Sequence[Network],
    request: Request,
    *,
    test: Part,
    data: Data,
    forgotten: Part,
    class_names: Sequence[str] | None = None,
    run: RunMetrics | None = None,
) -> dict[str, Any]:
    """What a report shows, as plain values.

    `test` are samples of all classes, which are `data`; `forgotten` the training samples that the request is about. The
    first network is the original. `run` is what was measured of the run that made the `result`.
    """
    unseen = data != "training data"
    goes = of_classes(test.labels, request.classes)
    asked = (test[goes], data) if goes.any() else (forgotten, "training data")
    alike = test[torch.isin(test.labels, forgotten.labels.unique())]
    missing: dict[str, str] = {}
    if not unseen:
        missing["membership"] = "There were no samples that the network was not trained on to compare with."
    elif not len(alike):
        missing["membership"] = f"The {data} has no sample of the forgotten samples' classes to compare with."
    shown = []
    for network in networks:
        model = working_copy(network.model)
        scores = test.scores(model)
        went = asked[0].scores(model)
        members = None if "membership" in missing else _membership(forgotten.scores(model), alike.scores(model))
        shown.append(
            {
                "name": network.name,
                "title": network.title,
                "role": network.role,
                "seconds": network.seconds,
                "drift": network.drift,
                "classes": _by_class(scores),
                "went": {"data": asked[1], "samples": len(went), "known": _right(went), "to": _counts(went)},
                "membership": members,
            }
        )
    return {
        "kind": KIND,
        "version": VERSION,
        "request": request.kind,
        "forgotten": list(request.classes),
        "samples": len(forgotten),
        "class_names": [str(k) for k in range(request.num_classes)] if class_names is None else list(class_names),
        "data": data,
        "networks": shown,
        "map": _map(networks, test, goes, missing),
        "missing": missing,
        "run": None if run is None else run.to_dict(),
    }


def _by_class(scores: Scores) -> list[dict[str, int]]:
    """How many samples of each class there are, and how many are classified as it."""
    hits = scores.logits.argmax(dim=1) == scores.labels
    found = []
    for k in scores.labels.unique().tolist():
        own = scores.labels == k
        found.append({"class": k, "hits": int(hits[own].sum()), "samples": int(own.sum())})
    return found


def _right(scores: Scores) -> int:
    return int((scores.logits.argmax(dim=1) == scores.labels).sum())


def _counts(scores: Scores) -> list[int]:
    """How many samples are classified as each class."""
    return scores.logits.argmax(dim=1).bincount(minlength=scores.logits.shape[1]).tolist()


def _membership(members: Scores, others: Scores) -> dict[str, Any]:
    """An attack that takes samples of low loss for training data: its curve, from the surest guess to all."""
    curve = roc(-members.losses(), -others.losses())
    every = max(1, len(curve.hits) // _POINTS)
    kept = [*range(0, len(curve.hits) - 1, every), len(curve.hits) - 1]
    return {
        "members": len(members),
        "others": len(others),
        "auc": curve.auc().item(),
        "fpr": [0.0, *(round(v, 5) for v in (curve.alarms[kept] / len(others)).tolist())],
        "tpr": [0.0, *(round(v, 5) for v in (curve.hits[kept] / len(members)).tolist())],
    }


def _map(networks: Sequence[Network], test: Part, goes: Tensor, missing: dict[str, str]) -> dict[str, Any] | None:
    """Where samples are in the plane in which the original's features spread most, by the original and by the result.

    Both are seen in the original's plane, so that what did not change stays where it was.
    """
    few = test[torch.cat([_drawn(m.nonzero().flatten(), _MAPPED // 2) for m in (goes, ~goes)])]
    batch = read(test.dataset, few.positions.tolist())
    pair = {"before": networks[0], "after": next((n for n in networks if n.role == "result"), networks[-1])}
    try:
        features = {when: list(layer_inputs(n.model, batch).values())[-1].double() for when, n in pair.items()}
        if features["before"].shape[1] < 2 or features["before"].shape != features["after"].shape:
            raise UnsupportedModel(f"they have the shapes {[tuple(x.shape) for x in features.values()]}")
    except UnscError as e:
        missing["map"] = f"There is no map of the features: {e}."
        return None
    plane, centre, share = _plane(features["before"])
    places = {when: ((x - centre) @ plane).tolist() for when, x in features.items()}
    return {
        "labels": few.labels.tolist(),
        "share": share,
        **{when: [[round(x, 4), round(y, 4)] for x, y in found] for when, found in places.items()},
    }


def _drawn(positions: Tensor, most: int) -> Tensor:
    """At most so many of the positions (n,), at random, in their order."""
    order = torch.randperm(len(positions), generator=torch.Generator().manual_seed(0))[:most]
    return positions[order.sort().values]


def _plane(features: Tensor) -> tuple[Tensor, Tensor, list[float]]:
    """The two principal axes (units, 2) of features (n, units), their centre, and the share of variance on each."""
    centre = features.mean(dim=0)
    _, values, axes = torch.linalg.svd(features - centre, full_matrices=False)
    axes, energy = axes[:2], values.square()
    # Which way an axis points is free; the largest entry is made positive, so that maps do not flip.
    axes = axes * axes.gather(1, axes.abs().argmax(dim=1, keepdim=True)).sign()
    return axes.T, centre, (energy[:2] / energy.sum().clamp(min=1e-300)).tolist()
