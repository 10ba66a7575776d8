"""Judge a model that somebody has unlearned, with whatever else they have to judge it by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset

from unsc.batches import Batch
from unsc.datasets import Data, as_source, check_map_style, read, read_labels, size_of
from unsc.errors import InvalidData, InvalidRequest, UnscError, listing
from unsc.evaluation.shared.case import Case, Part
from unsc.evaluation.shared.fooled import fooled_by, shortfall
from unsc.evaluation.shared.metrics import Measured, measure, metrics
from unsc.forms import Collate
from unsc.logits import OfOutput
from unsc.methods import Problem, apply, methods
from unsc.models import count_classes, said_of_few, working_copy
from unsc.names import numbered
from unsc.request import Request, check_labels, make_request, of_classes, whole_numbers
from unsc.result import Forgotten
from unsc.verdict import FORGOTTEN


@dataclass(frozen=True, repr=False)
class Audit:
    """What was measured of a model, and what the same metrics say of the models that it is compared with."""

    model: Measured
    retrained: Measured | None
    """What retraining gets: the reference values."""
    original: Measured | None
    controls: dict[str, Measured]
    """What the metrics say of the original with its forgotten classes hidden, by control."""
    kind: Literal["classes", "records"] = "classes"
    """What was to be forgotten."""

    def __repr__(self) -> str:
        return f"<Audit of {self.kind}: {len(self.model.values)} metrics. {self._forgotten()}>"

    @property
    def bottom_line(self) -> str:
        """What the numbers come to, in a few sentences."""
        return " ".join(sentence for sentence in (self._forgotten(), self._retained(), self._beyond()) if sentence)

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
            "bottom_line": self.bottom_line,
            "fooled_by": {name: self.fooled_by(name) for name in self.model.values},
            "better": {name: metrics()[name].better for name in self.model.values},
            "others": {name: measured.to_dict() for name, measured in others.items() if measured is not None},
        }

    def _forgotten(self) -> str:
        found = self.model.values.get("forget_test_acc" if self.kind == "classes" else "forget_train_acc")
        if found is None:
            return "Accuracy on what was to be forgotten was not measured."
        if self.kind == "records":
            said = f"Of {found.n} records {found.value:.1f} % are classified correctly" + self._beside(
                "forget_train_acc"
            )
            unseen = self.model.values.get("forget_test_acc")
            return f"{said}; of unseen samples of their classes {unseen.value:.1f} %." if unseen else f"{said}."
        lead = "Not predicted" if found.value <= FORGOTTEN else "Not forgotten"
        said = f"{found.value:.1f} % of {found.n} forgotten test samples are classified correctly"
        before = self.original.values.get("forget_test_acc") if self.original is not None else None
        unknown = before is not None and before.value <= FORGOTTEN
        never = " The original does not know them either, so nothing can be shown to be forgotten." if unknown else ""
        return f"{lead}: {said}{self._beside('forget_test_acc')}.{never}"

    def _retained(self) -> str:
        found = self.model.values.get("retain_test_acc")
        return f"Retained test accuracy: {found.value:.1f} %{self._beside('retain_test_acc')}." if found else ""

    def _beside(self, name: str) -> str:
        others = {"retrained": self.retrained, "original": self.original}
        values = [f"{k} {m.values[name].value:.1f} %" for k, m in others.items() if m is not None and name in m.values]
        return f" ({', '.join(values)})" if values else ""

    def _beyond(self) -> str:
        """What the metrics say that no control fools; accuracy cannot tell forgetting from hiding."""
        if self.original is None or self.retrained is None:
            given = {"original=...": self.original, "retrained=...": self.retrained}
            missing = " and ".join(name for name, measured in given.items() if measured is None)
            return f"Whether it was forgotten or only hidden cannot be told without {missing}."
        near, far = list[str](), list[str]()
        for name, value in self.model.values.items():
            if self.fooled_by(name) == () and any(name in control.values for control in self.controls.values()):
                reference, before = self.retrained.values[name].value, self.original.values[name].value
                metric = metrics()[name]
                nearer = shortfall(metric, value.value, reference) < shortfall(metric, before, reference) / 2
                (near if nearer else far).append(name)
        if not near and not far:
            return "No metric that was measured tells forgetting from hiding."
        found = {"nearer to retraining": near, "nearer to the original": far}
        verdicts = "; ".join(f"{words}: {listing(names)}" for words, names in found.items() if names)
        return f"Of the metrics that no control fools, {verdicts}."


def audit(
    model: nn.Module | Forgotten,
    train: Data,
    test: Data,
    *,
    classes: Iterable[int | str] | int | str | None = None,
    indices: Iterable[int] | None = None,
    original: nn.Module | None = None,
    retrained: nn.Module | None = None,
    twin: nn.Module | None = None,
    names: Iterable[str] | None = None,
    label_key: str | None = None,
    collate_fn: Collate | None = None,
    logits: OfOutput | None = None,
    seed: int = 0,
) -> Audit:
    """Measure how well `model` has forgotten whole `classes`, or the records at `indices` of `train`.

    `train` is the data it was trained on, `test` data that it has never seen. For records, "forgotten test samples" are
    those of the records' classes, and all test samples count as retained. With the model before unlearning
    (`original`) and one that was trained without what was forgotten (`retrained`, and a second one as `twin`) more can
    be measured. `names` restricts the audit to these metrics. Data, classes, `collate_fn` and `logits` are as in
    `evaluate`, and so is a result in the model's place.
    """
    model = model.in_former_labels() if isinstance(model, Forgotten) else model
    given = None if classes is None else _numbers(classes, model, [train, test], label_key)
    train, test = (as_source(data, model, label_key=label_key, collate_fn=collate_fn) for data in (train, test))
    _check_not_empty(train=train, test=test)
    if logits is not None:
        model = working_copy(model, logits=logits)
        original, retrained, twin = (
            None if other is None else working_copy(other, logits=logits) for other in (original, retrained, twin)
        )
    num_classes = _count({"model": model, "original": original, "retrained": retrained, "twin": twin}, train, test)
    request = make_request(num_classes, classes=given, indices=indices)
    parts = _parts(request, train=train, test=test)
    case = Case(model, request, parts, original=original, retrained=retrained, twin=twin, seed=seed)
    judged = measure(case, names)

    def same(other: nn.Module) -> Measured:
        return measure(case.of(other), judged.values)

    controls: dict[str, Measured] = {}
    if original is not None and retrained is not None:
        controls = {name: same(control) for name, control in _controls(original, request, train, seed).items()}
    reference = None if retrained is None else same(retrained)
    return Audit(judged, reference, None if original is None else same(original), controls, request.kind)


def _numbers(
    classes: Iterable[int | str] | int | str, model: nn.Module, data: list[Data], label_key: str | None
) -> set[int]:
    """The numbers of classes that may be named, and named more than once."""
    found = numbered(classes, model=model, data=data, label_key=label_key)
    return set(whole_numbers(found, "classes"))


def _check_not_empty(**datasets: Dataset) -> None:
    for name, dataset in datasets.items():
        check_map_style(dataset)
        if size_of(dataset) == 0:
            raise InvalidData(f"the {name} data has no samples; give at least one of every class")


def _parts(request: Request, *, train: Dataset, test: Dataset) -> dict[Part, Batch]:
    """The samples that go and that stay, of train and of test, checked to be some of known classes."""
    of_train, of_test = (read(dataset, range(size_of(dataset))) for dataset in (train, test))
    goes = _goes(request, of_train.labels)
    alike = of_classes(of_test.labels, request.classes or of_train.labels[goes].unique().tolist())
    parts: dict[Part, Batch] = {
        "forget_train": of_train[goes],
        "retain_train": of_train[~goes],
        "forget_test": of_test[alike],
        "retain_test": of_test[~alike] if request.kind == "classes" else of_test,
    }
    chosen = f"the classes {list(request.classes)}" if request.classes else f"{int(goes.sum())} records"
    for name, batch in parts.items():
        if len(batch) == 0:
            raise InvalidData(f"{name} has no samples when {chosen} are forgotten; it needs at least one")
        check_labels(batch.labels, request.num_classes, name)
    if len(parts["retain_train"].labels.unique()) < 2:
        raise InvalidData("only one class stays in the training data; at least two are needed to judge what was kept")
    return parts


def _goes(request: Request, labels: Tensor) -> Tensor:
    """Which training samples with these labels (n,) are to be forgotten, bool (n,)."""
    if request.records is None:
        return of_classes(labels, request.classes)
    request.check_positions(len(labels))
    return torch.zeros(len(labels), dtype=torch.bool).index_fill(0, torch.tensor(request.records), True)


def _count(models: dict[str, nn.Module | None], train: Dataset, test: Dataset) -> int:
    """How many classes the models know; it must be the same number for all, and all must take the data."""
    of_train, of_test = (read(dataset, range(min(4, size_of(dataset)))) for dataset in (train, test))
    counts: dict[str, int] = {}
    for name, model in models.items():
        if model is not None:
            working = working_copy(model)
            counts[name] = count_classes(working, of_train)
            said_of_few(working, of_test, "the test data")
    if len(set(counts.values())) > 1:
        raise InvalidRequest(f"the models know different numbers of classes, {counts}; give models of the same classes")
    return counts["model"]


def _controls(original: nn.Module, request: Request, train: Dataset, seed: int) -> dict[str, nn.Module]:
    """The original with its forgotten classes hidden; a control that this model does not allow is left out."""
    goes = _goes(request, read_labels(train))
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
