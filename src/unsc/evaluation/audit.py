"""Judge a model that somebody has unlearned, with whatever else they have to judge it by."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.utils.data import Dataset, Subset

from unsc.batches import Batch
from unsc.datasets import Data, as_source, check_map_style, read, read_labels, size_of
from unsc.errors import InvalidData, InvalidRequest, UnscError
from unsc.evaluation.shared.case import Case, Part
from unsc.evaluation.shared.fooled import fooled_by
from unsc.evaluation.shared.metrics import Measured, measure, metrics
from unsc.forms import Collate
from unsc.logits import OfOutput
from unsc.methods import Problem, apply, methods
from unsc.models import count_classes, working_copy
from unsc.names import numbered
from unsc.request import Request, of_classes


@dataclass(frozen=True)
class Audit:
    """What was measured of a model, and what the same metrics say of the models that it is compared with."""

    model: Measured
    retrained: Measured | None
    """What retraining gets: the reference values."""
    original: Measured | None
    controls: dict[str, Measured]
    """What the metrics say of the original with its forgotten classes hidden, by control."""

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
    train: Data,
    test: Data,
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
    measured. `names` restricts the audit to these metrics. Data, classes, `collate_fn` and `logits` are as in
    `evaluate`.
    """
    given: list[Any] = numbered(classes, model=model, data=[train, test], label_key=label_key)
    train, test = (as_source(data, model, label_key=label_key, collate_fn=collate_fn) for data in (train, test))
    _check_not_empty(train=train, test=test)
    if logits is not None:
        model = working_copy(model, logits=logits)
        original, retrained, twin = (
            None if other is None else working_copy(other, logits=logits) for other in (original, retrained, twin)
        )
    num_classes = _count({"model": model, "original": original, "retrained": retrained, "twin": twin}, train)
    request = Request.for_classes({operator.index(k) for k in given}, num_classes)
    parts = _parts(request, train=train, test=test)
    case = Case(model, request, parts, original=original, retrained=retrained, twin=twin, seed=seed)
    judged = measure(case, names)

    def same(other: nn.Module) -> Measured:
        return measure(case.of(other), judged.values)

    controls: dict[str, Measured] = {}
    if original is not None and retrained is not None:
        controls = {name: same(control) for name, control in _controls(original, request, train, seed).items()}
    reference = None if retrained is None else same(retrained)
    return Audit(judged, reference, None if original is None else same(original), controls)


def _check_not_empty(**datasets: Dataset) -> None:
    for name, dataset in datasets.items():
        check_map_style(dataset)
        if size_of(dataset) == 0:
            raise InvalidData(f"the {name} data has no samples; give at least one of every class")


def _parts(request: Request, *, train: Dataset, test: Dataset) -> dict[Part, Batch]:
    """The samples that go and that stay, of train and of test, checked to be some of known classes."""
    of_train, of_test = (read(dataset, range(size_of(dataset))) for dataset in (train, test))
    goes_of_train, goes_of_test = (of_classes(batch.labels, request.classes) for batch in (of_train, of_test))
    parts: dict[Part, Batch] = {
        "forget_train": of_train[goes_of_train],
        "retain_train": of_train[~goes_of_train],
        "forget_test": of_test[goes_of_test],
        "retain_test": of_test[~goes_of_test],
    }
    chosen, last = list(request.classes), request.num_classes - 1
    for name, batch in parts.items():
        if len(batch) == 0:
            raise InvalidData(f"{name} has no samples when the classes {chosen} are forgotten; it needs at least one")
        if extra := [k for k in batch.labels.unique().tolist() if not 0 <= k <= last]:
            raise InvalidData(f"{name} has labels {extra}; the model knows the classes 0 to {last}")
    if len(parts["retain_train"].labels.unique()) < 2:
        raise InvalidData("only one class stays in the training data; at least two are needed to judge what was kept")
    return parts


def _count(models: dict[str, nn.Module | None], train: Dataset) -> int:
    """How many classes the models know; it must be the same number for all."""
    few = read(train, range(min(4, size_of(train))))
    counts = {name: count_classes(working_copy(m), few) for name, m in models.items() if m is not None}
    if len(set(counts.values())) > 1:
        raise InvalidRequest(f"the models know different numbers of classes, {counts}; give models of the same classes")
    return counts["model"]


def _controls(original: nn.Module, request: Request, train: Dataset, seed: int) -> dict[str, nn.Module]:
    """The original with its forgotten classes hidden; a control that this model does not allow is left out."""
    goes = of_classes(read_labels(train), request.classes)
    forget, retain = (Subset(train, part.nonzero().flatten().tolist()) for part in (goes, ~goes))
    problem = Problem(original, request, forget=forget, retain=retain, seed=seed)
    made: dict[str, nn.Module] = {}
    for name, method in methods().items():
        if method.control:
            try:
                applied = apply(method, problem)
            except UnscError:
                continue
            if applied.model is not None:
                made[name] = applied.model
    return made
