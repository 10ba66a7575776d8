"""Forget from a user's own files in one go, without a store: load, forget, measure, save.

ready = get_ready("app.net:build", weights="model.safetensors", data="data/train", classes=["cat", "dog"])
reached = ready.forget()
reached.save("runs/first")
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from unsc.api import forget
from unsc.checks import is_whole
from unsc.datasets import as_source
from unsc.errors import InvalidRequest, NotForgottenWarning, listing, unknown
from unsc.evaluation.side_by_side import Network, Part, side_by_side
from unsc.loading.data import LoadedData
from unsc.loading.models import LoadedModel
from unsc.options import Options
from unsc.progress import Progress, quiet
from unsc.release.asked import Asked
from unsc.release.loaded import load_both, load_others
from unsc.release.reached import Reached, Scores, scores_of
from unsc.request import of_classes
from unsc.result import Forgotten


@dataclass(frozen=True, repr=False)
class Ready:
    """A request that was understood, with the model and the data it is for. Nothing has been changed yet."""

    model: LoadedModel
    data: LoadedData
    validation: LoadedData | None
    """Data that the model was not trained on."""
    classes: tuple[int, ...]
    """Classes to forget; empty for records."""
    records: tuple[int, ...]
    """Positions of records to forget; empty for classes."""

    def __repr__(self) -> str:
        return f"<Ready: {self.promise}>"

    @property
    def kind(self) -> Literal["classes", "records"]:
        return "classes" if self.classes else "records"

    @property
    def samples(self) -> int:
        """How many training samples are to be forgotten."""
        return int(of_classes(self.data.labels, self.classes).sum()) if self.classes else len(self.records)

    @property
    def promise(self) -> str:
        """What kind of request this is, and what a run can promise."""
        if self.kind == "classes":
            named = listing(_called(self.data, k) for k in self.classes)
            return (
                f"Whole classes: {named}, with {self.samples} of {len(self.data)} training samples. The model will no "
                "longer give these classes; what stays keeps its predictions, as measured. It does not promise weights "
                "as if the classes had never been seen."
            )
        how = (
            "treated as unseen samples are, as far as the validation data tells"
            if self.validation is not None
            else "less sure of them; without validation data it is a guess how sure it should be"
        )
        return (
            f"Records: {self.samples} of {len(self.data)} training samples, of classes that stay. The model will be "
            f"{how}. Most records may still be classified correctly, as a model that never saw them would."
        )

    def forget(self, *, progress: Progress | bool = quiet, **options: Any) -> Reached:
        """Forget, and measure what was reached. `options` are those of `unsc.forget`."""
        Options.from_keywords(options)  # a mistake is said before anything is read
        before = self._scores(self.model)
        asked: dict[str, Any] = {"classes": self.classes} if self.classes else {"indices": self.records}
        if self.records and self.validation is not None:
            asked["validation"] = self.validation.dataset
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotForgottenWarning)  # `Reached` says it
            result = forget(
                self.model.model,
                self.data.dataset,
                labels=self.data.labels.tolist(),
                collate_fn=self.data.collate,
                progress=progress,
                **asked,
                **options,
            )
        after = self._scores(replace(self.model, model=result.in_former_labels()))
        return Reached(result, self.model, self.data.class_names, before, after, self._side_by_side(result))

    def _side_by_side(self, result: Forgotten) -> dict[str, Any]:
        """What a report shows: on validation data, or else on training data."""
        seen = self.validation or self.data
        own, others = (as_source(x.dataset, self.model.model, collate_fn=x.collate) for x in (self.data, seen))
        goes = of_classes(self.data.labels, self.classes).nonzero().flatten() if self.classes else None
        m, after = result.metrics, result.in_former_labels()
        return side_by_side(
            [
                Network("original", "Original", "original", self.model.model),
                Network("result", "Result", "result", after, m.seconds, m.drift_max),
            ],
            result.request,
            test=Part.some(others, seen.labels),
            data="training data" if self.validation is None else "validation data",
            forgotten=Part.some(own, self.data.labels, torch.tensor(self.records) if goes is None else goes),
            class_names=self.data.class_names,
            run=m,
        )

    def _scores(self, model: LoadedModel) -> Scores | None:
        """Accuracy on the validation data, if there is any."""
        if self.validation is None:
            return None
        return scores_of(model, self.validation, self.classes)


def get_ready(
    model: str,
    *,
    data: str,
    weights: str | Path | None = None,
    classes: Iterable[str | int] | None = None,
    records: Asked | Iterable[str] | None = None,
    validation: str | None = None,
    transform: str | None = None,
    workers: int = 0,
    search: str | Path = ".",
) -> Ready:
    """Load a model and its training data, and find what is to be forgotten: `classes`, by name or number, or `records`.

    Records are ids, or a request that was read from a file (`read_request`) and may name users. Model, weights, data,
    transform and workers are as for `load_model` and `load_data`; `validation` is data that the model was not trained
    on, of any of the same kinds.
    """
    if (classes is None) == (records is None):
        raise InvalidRequest("name either classes or records to forget (--classes cat,dog or --ids FILE)")
    source: dict[str, Any] = {"transform": transform, "workers": workers, "search": search}
    network, loaded = load_both(model, weights, data, **source)
    unseen = None if validation is None else load_others(validation, network, loaded.class_names, **source)
    chosen = () if classes is None else _numbers(classes, loaded)
    positions = () if records is None else _positions(records, loaded)
    return Ready(network, loaded, unseen, chosen, positions)


def _numbers(classes: Iterable[str | int], data: LoadedData) -> tuple[int, ...]:
    """Classes by number; a name counts before a number that looks like it."""
    names = data.class_names or ()
    found: set[int] = set()
    for one in classes:
        if isinstance(one, str) and one in names:
            found.add(names.index(one))
        elif is_whole(one, 0) or (isinstance(one, str) and one.isascii() and one.isdecimal() and len(one) < 10):
            found.add(int(one))
        elif names:
            raise unknown("class", str(one), names)
        else:
            raise InvalidRequest(f"the class {one!r:.80} is no number, and neither data nor model have names")
    if not found:
        raise InvalidRequest("no class is named; give at least one (--classes cat,dog)")
    missing = sorted(found - set(data.labels.unique().tolist()))
    if missing:
        raise InvalidRequest(
            f"{data.spec} has no sample of class {listing(_called(data, k) for k in missing)}; it has "
            f"{listing((_called(data, k) for k in data.labels.unique().tolist()), limit=40)}"
        )
    return tuple(sorted(found))


def _positions(records: Asked | Iterable[str], data: LoadedData) -> tuple[int, ...]:
    asked = records if isinstance(records, Asked) else Asked(ids=tuple(map(str, records)))
    if asked.classes:
        raise InvalidRequest("the request asks for classes; name them by themselves (--classes cat,dog)")
    found = set(data.positions(asked.ids))
    for column, value in asked.users:
        values: Sequence[str] = data.column(column)
        of_user = [i for i, one in enumerate(values) if one == value]
        if not of_user:
            raise InvalidRequest(f"no sample of {data.spec} has {value!r} in the column {column!r}; correct it")
        found.update(of_user)
    return tuple(sorted(found))


def _called(data: LoadedData, number: int) -> str:
    names = data.class_names
    return names[number] if names is not None and number < len(names) else str(number)
