"""Two tables of `docs/paper.md` for one preset: every request beside retraining, and every method on each data set.

Both are made from the results of all experiments. Where two of them have measured the same (a class is forgotten in
table 1 and among the numbers of classes), the first of `_ORDER` is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from unsc.bench.marked import renewed
from unsc.bench.paper import data_sets
from unsc.bench.results import Result, read_results
from unsc.bench.scenarios import full_name
from unsc.compare.comparison import ORIGINAL, RETRAIN
from unsc.compare.grid import Grid
from unsc.compare.order import blocks
from unsc.compare.results import Summary

PRESET = "long"
_ORDER = ("table1", "ablation", "multiclass", "several")
_COLUMNS = {
    "original": ORIGINAL,
    "retrained": RETRAIN,
    "logit mask": "logit_mask",
    "ours": "unsc",
    "paper's step": "unsc_paper",
}
"""Of the first table: what stands above a column, and its method."""
_ACCURACIES = ("retain_test_acc", "forget_test_acc")


def write_overview(results: Path) -> list[Path]:
    """Put them between `<!-- requests -->` and `<!-- methods -->` of `docs/paper.md` and their ends, if it is there."""
    found = [result for result in read_results(results) if set(_ACCURACIES) <= result.values.keys()]
    parts = {mark: partial(make, found) for mark, make in _TABLES.items()}
    return renewed(results.parent / "docs" / "paper.md", parts)


def requests(found: Sequence[Result]) -> str:
    """Retained / forgotten test accuracy of each number of classes, data set by data set."""
    rows: list[tuple[str, ...]] = []
    for data in data_sets():
        own = _of(found, data)
        for classes in sorted({result.classes for result in own}, key=len):
            same = [result for result in own if result.classes == classes]
            trials = len(_by_trial(same, ORIGINAL))
            many = f"{len(classes)} class{'es' if len(classes) > 1 else ''}"
            rows.append(
                (
                    f"{data}, {many} (n = {trials})",
                    *(_cell(_by_trial(same, method), trials) for method in _COLUMNS.values()),
                )
            )
    return Grid("", ("data, forgotten", *_COLUMNS), (tuple(rows),)).markdown()


def methods(found: Sequence[Result]) -> str:
    """The same of all methods of table 1, side by side."""
    own = {data: [r for r in _of(found, data) if r.table == "table1"] for data in data_sets()}
    names = {result.method for of_data in own.values() for result in of_data}
    trials = {data: len(_by_trial(of_data, ORIGINAL)) for data, of_data in own.items()}
    head = ("method", *(f"{data} (n = {n})" for data, n in trials.items()))
    made = tuple(
        tuple((name, *(_cell(_by_trial(own[data], name), trials[data]) for data in own)) for name in block)
        for block in blocks(names)
    )
    return Grid("", head, made).markdown()


_TABLES: dict[str, Callable[[Sequence[Result]], str]] = {"requests": requests, "methods": methods}


def _of(found: Sequence[Result], data: str) -> list[Result]:
    return [result for result in found if result.data == full_name(data, PRESET) and result.table in _ORDER]


def _by_trial(found: Sequence[Result], method: str) -> list[Result]:
    """The results of a method, one for each trial."""
    chosen: dict[int, Result] = {}
    for result in sorted(found, key=lambda r: -_ORDER.index(r.table)):
        if result.method == method:
            chosen[result.trial] = result
    return list(chosen.values())


def _cell(found: Sequence[Result], trials: int) -> str:
    """Both accuracies, and the number of trials where it is not that of the row."""
    if not found:
        return "not run"
    retain, forget = (Summary.of([result.values[name] for result in found]) for name in _ACCURACIES)
    fewer = "" if len(found) == trials else f" (n = {len(found)})"
    return f"{_points(retain)} / {_points(forget)}{fewer}"


def _points(value: Summary) -> str:
    """Percent to a hundredth: rows differ by less than a tenth. What is 0 in every trial has no digits to show."""
    if value.mean == 0:
        return "0"
    return f"{value.mean:.2f}" if value.sd is None else f"{value.mean:.2f} ± {value.sd:.2f}"
