"""The tables of one preset: one value a trial, the first experiment that has it, and what was not run said."""

from __future__ import annotations

from typing import Any

from unsc.bench.overview import PRESET, methods, requests
from unsc.bench.results import Result

DATA = f"svhn@{PRESET}"


def made(method: str, retain: float, forget: float, *, table: str = "table1", trial: int = 0, **more: Any) -> Result:
    classes = tuple(range(more.get("classes", 1)))
    values = {"retain_test_acc": retain, "forget_test_acc": forget}
    return Result(table, more.get("data", DATA), method, trial, classes, values, None, 1.0, {})


def cells(table: str) -> dict[str, list[str]]:
    """Rows by their first cell."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return {row[0]: row[1:] for row in rows}


def test_a_request_is_a_row_with_every_trial_once() -> None:
    found = [
        *(made("original", 90 + i, 80, trial=i) for i in range(2)),
        made("unsc", 91, 0),
        made("unsc", 50, 9, table="several"),  # the same trial as in table 1
        made("unsc", 93, 0, table="several", trial=1),
        made("unsc_paper", 89, 2.5),
        made("original", 94, 85, table="several", classes=2),
        made("unsc", 70, 3, data="svhn"),  # of another preset
    ]
    rows = cells(requests(found))
    assert rows["svhn, 1 class (n = 2)"] == [
        "90.50 ± 0.71 / 80.00 ± 0.00",
        "not run",
        "not run",
        "92.00 ± 1.41 / 0",
        "89.00 / 2.50 (n = 1)",
    ]
    assert rows["svhn, 2 classes (n = 1)"] == ["94.00 / 85.00", *["not run"] * 4]


def test_methods_stand_side_by_side() -> None:
    found = [made("original", 90, 80), made("ssd", 88, 1), made("ssd", 60, 2, data=f"cifar-10@{PRESET}")]
    rows = cells(methods([*found, made("fisher", 90, 0, table="several")]))
    assert rows["ssd"] == ["not run", "88.00 / 1.00", "60.00 / 2.00 (n = 1)", "not run"] and "fisher" not in rows
