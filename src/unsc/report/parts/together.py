"""Several runs in one table that can be sorted, with the controls marked."""

from __future__ import annotations

from collections.abc import Sequence

from unsc.compare.order import blocks
from unsc.report.comparison import ComparisonRun, role
from unsc.report.figure import Cell
from unsc.report.html import Badge, paragraph, table
from unsc.report.parts import networks
from unsc.report.read import Run
from unsc.report.request import RequestRun

_HEAD = ("network or method", "run", "retained accuracy (%)", "forgotten, still known (%)", "attack (AUC)", "seconds")
_METRICS = ("retain_test_acc", "forget_test_acc", "loss_attack_auc", "seconds")


def part(runs: Sequence[Run]) -> str:
    """A row for each network of a request and each method of a comparison; empty for a single run."""
    rows = [row for run in runs for row in _rows(run)]
    if len(runs) < 2 or not rows:
        return ""
    note = (
        "Every network and method of all runs. Runs differ in data, networks and what they measure on, so compare "
        "across them with care; controls, which forget nothing, are marked."
    )
    return paragraph(note, "note") + table("All runs together", _HEAD, rows)


def _rows(run: Run) -> list[list[Cell | Badge]]:
    if isinstance(run, RequestRun):
        return _of_request(run)
    if not isinstance(run, ComparisonRun):
        return []
    found: list[list[Cell | Badge]] = []
    for method in blocks(run.results.cells).all:
        values = [run.results.summary(method, name) for name in _METRICS]
        if not any(value is not None for value in values):
            continue
        means = [None if value is None else value.mean for value in values]
        found.append([Badge(method, networks.mark(role(run, method))), run.name, *means])
    return found


def _of_request(run: RequestRun) -> list[list[Cell | Badge]]:
    if not run.networks and run.run is not None:
        return [[Badge("result", networks.mark("result")), run.name, None, run.run.forget_acc, None, run.run.seconds]]
    return [
        [Badge(one["title"], networks.mark(one["role"])), run.name, cells[0], cells[2], cells[3], cells[5]]
        for one, cells in zip(run.networks, networks.values(run), strict=True)
    ]
