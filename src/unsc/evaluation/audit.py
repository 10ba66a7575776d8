"""Judge a model that somebody brings, with whatever else they have to judge it by."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset, Subset

from unsc.batches import Batch
from unsc.datasets import as_source, check_map_style, read, read_labels
from unsc.errors import InvalidData, InvalidRequest, UnscError
from unsc.evaluation.shared.case import Case, Part
from unsc.evaluation.shared.fooled import fooled_by
from unsc.evaluation.shared.measures import Measured, measure, metrics
from unsc.forms import Collate
from unsc.logits import OfOutput
from unsc.methods import Problem, apply, methods
from unsc.models import count_classes, working_copy
from unsc.names import numbered


@dataclass(frozen=True)
class Audit:
    """What was measured of a model, and what the same metrics say of other models."""

    model: Measured
    retrained: Measured | None
    """What retraining gets: the reference values."""
    original: Measured | None
    controls: dict[str, Measured]
    """What metrics say of the original with its forgotten classes hidden in three ways."""

    def fooled_by(self, name: str) -> tuple[str, ...] | None:
        """Which controls fool a metric here; None without an original and a retrained model to tell by."""
        if self.original is None or self.retrained is None:
            return None
        both = [m.values[name].value for m in (self.original, self.retrained) if name in m.values]
        if len(both) < 2:
            return None
        values = {c: [m.values[name].value] for c, m in self.controls.items() if name in m.values}
        return fooled_by(metrics()[name], values, original=both[:1], retrained=both[1:])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to be saved as JSON."""
        others = {"retrained": self.retrained, "original": self.original, **self.controls}
        return {
            **self.model.to_dict(),
            "fooled_by": {name: self.fooled_by(name) for name in self.model.values},
            "better": {name: metrics()[name].better for name in self.model.values},
            "others": {name: measured.to_dict() for name, measured in others.items() if measured is not None},
        }


def audit(
    model: nn.Module,
    train: Dataset,
    test: Dataset,
    *,
    classes: Iterable[int | str] | int | str,
    original: nn.Module | None = None,
    retrained: nn.Module | None = None,
    twin: nn.Module | None = None,
    names: Iterable[str] | None = None,
    label_key: str | None = None,
    collate_fn: Collate | None = None,
    logits: OfOutput | None = None,
    seed: int = 0,
) -> Audit:
    """Measure how well `model` has forgotten `classes`.

    `train` is the data it was trained on, `test` data that it has never seen. With the model before unlearning
    (`original`) and one that was trained without the classes (`retrained`, and a second one as `twin`) more can be
    measured. `names` asks for these metrics alone. Data, classes, `collate_fn` and `logits` are as in `evaluate`.
    """
    given: list[Any] = numbered(classes, model=model, data=[train, test], label_key=label_key)
    chosen = tuple(sorted({operator.index(k) for k in given}))
    train, test = (as_source(data, model, label_key=label_key, collate_fn=collate_fn) for data in (train, test))
    if logits is not None:
        model = working_copy(model, logits=logits)
        original, retrained, twin = (
            None if other is None else working_copy(other, logits=logits) for other in (original, retrained, twin)
        )
    parts = _parts(train, test, chosen)
    num_classes = _count({"model": model, "original": original, "retrained": retrained, "twin": twin}, train)
    _check(chosen, parts, num_classes)
    wanted = None if names is None else list(names)
    case = Case(model, num_classes, chosen, parts, original=original, retrained=retrained, twin=twin, seed=seed)
    judged = measure(case, wanted)
    others = {name: m for name, m in (("original", original), ("retrained", retrained)) if m is not None}
    measured = {name: measure(case.of(m), judged.values) for name, m in others.items()}
    controls = {}
    if original is not None and retrained is not None:
        controls = {name: measure(case.of(m), judged.values) for name, m in _controls(case, train).items()}
    return Audit(judged, measured.get("retrained"), measured.get("original"), controls)


def _parts(train: Dataset, test: Dataset, classes: tuple[int, ...]) -> dict[Part, Batch]:
    parts: dict[Part, Batch] = {}
    for name, dataset in (("train", train), ("test", test)):
        check_map_style(dataset)
        size = len(dataset)  # type: ignore[arg-type]
        if not size:
            raise InvalidData(f"the {name} data has no samples; give at least one of every class")
        batch = read(dataset, range(size))
        gone = torch.isin(batch.labels, torch.tensor(classes))
        parts[f"forget_{name}"], parts[f"retain_{name}"] = batch[gone], batch[~gone]  # type: ignore[index]
    return parts


def _count(models: dict[str, nn.Module | None], train: Dataset) -> int:
    """How many classes the models know; it must be the same number for all."""
    few = read(train, range(min(4, len(train))))  # type: ignore[arg-type]
    counts = {name: count_classes(working_copy(m), few) for name, m in models.items() if m is not None}
    if len(set(counts.values())) > 1:
        raise InvalidRequest(f"the models know different numbers of classes, {counts}; give models of the same classes")
    return counts["model"]


def _check(classes: tuple[int, ...], parts: dict[Part, Batch], num_classes: int) -> None:
    wrong = [k for k in classes if not 0 <= k < num_classes]
    if wrong or not classes:
        raise InvalidRequest(f"classes {list(classes)}; give at least one of 0 to {num_classes - 1}")
    for name, batch in parts.items():
        if len(batch) == 0:
            raise InvalidData(f"{name} has no samples when the classes {list(classes)} are forgotten; it needs some")
        if not 0 <= batch.labels.min() <= batch.labels.max() < num_classes:
            extra = [k for k in batch.labels.unique().tolist() if not 0 <= k < num_classes]
            raise InvalidData(f"{name} has labels {extra}; the model knows the classes 0 to {num_classes - 1}")
    if len(parts["retain_train"].labels.unique()) < 2:
        raise InvalidData("one class only stays in the training data; at least two are needed to judge what was kept")


def _controls(case: Case, train: Dataset) -> dict[str, nn.Module]:
    """The original with its forgotten classes hidden; a control that this model does not allow is left out."""
    assert case.original is not None
    gone = torch.isin(read_labels(train), torch.tensor(case.classes))
    forget, retain = (Subset(train, part.nonzero().flatten().tolist()) for part in (gone, ~gone))
    problem = Problem(case.original, case.num_classes, case.classes, forget=forget, retain=retain, seed=case.seed)
    made = {}
    for name, method in methods().items():
        if method.control:
            try:
                applied = apply(method, problem)
            except UnscError:
                continue
            if applied.model is not None:
                made[name] = applied.model
    return made
