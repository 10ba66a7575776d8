"""A comparison's results as numbers, gathered from its files and from nothing else."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from unsc.compare.comparison import ORIGINAL, RETRAIN, Comparison, read_result
from unsc.compare.order import controls_for
from unsc.evaluation.shared.fooled import fooled_by
from unsc.evaluation.shared.metrics import Metric, metrics
from unsc.storage.files import write_json, write_whole
from unsc.storage.versions import versions

_OF_CLASSES = {"forget_test_acc", "forget_train_acc", "forget_gap"}
"""The lower the better, for classes; for records `records_acc` and `loss_attack_auc` are in their place."""


@dataclass(frozen=True)
class Summary:
    """A metric of a method over trials: mean, standard deviation (None for one trial) and their number."""

    mean: float
    sd: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        return cls(fmean(values), stdev(values) if len(values) > 1 else None, len(values))

    def __str__(self) -> str:
        return _number(self.mean) if self.sd is None else f"{_number(self.mean)} ± {_number(self.sd)}"


@dataclass(frozen=True)
class Results:
    """All results of a comparison."""

    cells: dict[str, list[dict[str, Any]]]
    """By method, one result for each trial that is there."""
    trials: int
    request: str = "classes"
    """What was forgotten: `classes` or `records`."""

    @classmethod
    def read(cls, comparison: Comparison) -> Results:
        cells: dict[str, list[dict[str, Any]]] = {}
        for method in (ORIGINAL, *comparison.config.methods):
            paths = [comparison.result_path(trial, method) for trial in comparison.trials]
            shadows = comparison.config.shadows
            cells[method] = [not_by_itself(read_result(path), shadows) for path in paths if path.exists()]
        return cls(cells, len(comparison.trials), comparison.config.request)

    def by_trial(self, method: str, metric: str) -> dict[int, float]:
        """The values of a method, by the number of the trial."""
        found = {cell["trial"]: cell["measured"]["values"].get(metric) for cell in self.cells.get(method, ())}
        return {trial: v["value"] for trial, v in found.items() if v is not None}

    def values(self, method: str, metric: str) -> list[float]:
        return list(self.by_trial(method, metric).values())

    def summary(self, method: str, metric: str) -> Summary | None:
        values = self.values(method, metric)
        return Summary.of(values) if values else None

    def unknown(self, method: str, metric: str) -> bool:
        """Whether there are results of a method in which this metric could not be measured."""
        return any(metric in cell["measured"]["skipped"] for cell in self.cells.get(method, ()))

    def shown(self, method: str, metric: str) -> str:
        """For a table: mean and standard deviation, `?` for what could not be measured, `–` where no result is."""
        summary = self.summary(method, metric)
        return str(summary) if summary else "?" if self.unknown(method, metric) else "–"

    def fooled(self, metric: Metric) -> tuple[str, ...] | None:
        """Which of the controls fool a metric here, by the trials that the original and retraining both have."""
        original, retrained = (self.by_trial(name, metric.name) for name in (ORIGINAL, RETRAIN))
        both = [trial for trial in original if trial in retrained]
        controls = {name: self.by_trial(name, metric.name) for name in controls_for(self.request)}
        known = {name: [v[t] for t in both] for name, v in controls.items() if all(t in v for t in both)}
        return fooled_by(metric, known, original=[original[t] for t in both], retrained=[retrained[t] for t in both])

    def diverged(self, method: str) -> list[str]:
        """Why it diverged, for each trial in which it did."""
        return [cell["diverged"] for cell in self.cells[method] if cell["diverged"]]

    def measured(self) -> dict[str, Metric]:
        """The metrics that at least one method has."""
        found = {name for cells in self.cells.values() for cell in cells for name in cell["measured"]["values"]}
        if self.request == "records":
            found -= _OF_CLASSES
        return {name: metric for name, metric in metrics().items() if name in found}


def not_by_itself(cell: dict[str, Any], shadows: int) -> dict[str, Any]:
    """A result; if it is that of the only retrained network, without what compares it with itself.

    Files up to 0.2.0 have these values.
    """
    if cell["method"] != RETRAIN or shadows:
        return cell
    measured, known = cell["measured"], metrics()
    itself = [name for name in measured["values"] if name in known and "retrained" in known[name].needs]
    values = {name: value for name, value in measured["values"].items() if name not in itself}
    skipped = measured["skipped"] | dict.fromkeys(itself, "there is no second retrained network to compare with")
    return cell | {"measured": measured | {"values": values, "skipped": skipped}}


def write(results: Results, comparison: Comparison, *, seconds: float) -> None:
    """`results.json` and `results.csv` in the comparison's folder, with all that tells how they came about."""
    known = results.measured()
    content = {
        "config": asdict(comparison.config),
        "versions": versions(),
        "seconds": seconds,
        "metrics": {name: _described(metric, results) for name, metric in known.items()},
        "summary": {
            method: {name: asdict(s) if (s := results.summary(method, name)) else None for name in known}
            for method in results.cells
        },
        "cells": [cell for cells in results.cells.values() for cell in cells],
    }
    write_json(comparison.folder / "results.json", content)
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(("trial", "classes", "seed", "method", "metric", "value", "n", "low", "high"))
    for cells in results.cells.values():
        for cell in cells:
            where = cell["trial"], " ".join(map(str, cell["classes"])), cell["seed"], cell["method"]
            for name, v in cell["measured"]["values"].items():
                table.writerow((*where, name, v["value"], v["n"], v["low"], v["high"]))
    write_whole(comparison.folder / "results.csv", lambda path: path.write_text(text.getvalue()))


def _described(metric: Metric, results: Results) -> Mapping[str, Any]:
    reference = results.summary(RETRAIN, metric.name)
    return {
        "about": metric.about,
        "unit": metric.unit,
        "better": metric.better,
        "topic": metric.topic,
        "reference": None if reference is None else asdict(reference),
        "fooled_by": results.fooled(metric),
    }


def _number(value: float) -> str:
    """At most four digits, so as not to feign precision."""
    if math.isnan(value):
        return "nan"
    size = abs(value)
    digits = 0 if size >= 999.95 else 1 if size >= 10 else 2 if size >= 0.1 or not size else 3
    return f"{value:.{digits}f}"
