"""Rows that `unsc bench speed` and `unsc bench steps` measured, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unsc.bench.speed.page import grid
from unsc.report.figure import Cell
from unsc.storage.files import read_json

_STEPS = ("forget", "method", "retain_test_acc", "forget_test_acc", "retained_kl", "drift_max", "passes", "seconds")
_RECORDS = ("records", "method", "records_acc", "retained_kl", "seconds")


@dataclass(frozen=True)
class RowsRun:
    """A table of measurements."""

    name: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    about: str


def _rows_in(folder: Path) -> dict[str, Mapping[str, Any]]:
    """The files of a folder that hold rows, by name."""
    found = {path.stem: read_json(path) for path in sorted(folder.glob("*.json"))}
    return {name: content for name, content in found.items() if "lines" in content or "rows" in content}


def is_rows(folder: Path) -> bool:
    return bool(_rows_in(folder))


def read_rows_of(folder: Path) -> list[RowsRun]:
    """One table for speed, and one for each setup of the steps."""
    found = _rows_in(folder)
    tables = [_of_steps(name, content) for name, content in found.items() if "rows" in content]
    if any("lines" in content for content in found.values()):
        measured = grid(folder)
        rows = tuple(row for block in measured.blocks for row in block)
        tables.append(RowsRun(folder.name, measured.head, rows, "What a request costs (`unsc bench speed`)."))
    return tables


def _of_steps(name: str, content: Mapping[str, Any]) -> RowsRun:
    rows: Sequence[Mapping[str, Any]] = content["rows"]
    wanted = [*_STEPS, *(key for key in _RECORDS if key not in _STEPS)]
    head = tuple(key for key in wanted if any(_plain(row.get(key)) for row in rows))
    cells = tuple(tuple(row.get(key) if _plain(row.get(key)) else None for key in head) for row in rows)
    return RowsRun(name, head, cells, f"Step rules on {name} (`unsc bench steps`); accuracy in percent, KL in nats.")


def _plain(value: object) -> bool:
    return isinstance(value, str | int | float)
