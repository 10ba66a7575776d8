"""Carry out `unsc bench speed`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unsc.bench.results import hardware
from unsc.bench.speed.place import Missing, Place
from unsc.bench.speed.row import ROWS, Goal, Line, Row, in_order
from unsc.storage.files import read_json, write_json
from unsc.storage.versions import versions


def run_speed(names: Sequence[str], out: Path, place: Place, *, fresh: bool = False) -> Iterator[tuple[str, str]]:
    """Measure the rows `names`, by default all; a row's name and what became of it, one after another.

    A row is written to `out` as `NAME.json` once it is measured. Rows that are there are kept, unless they are to be
    measured afresh.
    """
    rows = [ROWS.find(name) for name in names] or in_order()
    for row in rows:
        path = out / f"{row.name}.json"
        if path.exists() and not fresh:
            yield row.name, "measured before"
            continue
        try:
            content = measured(row, place)
        except Missing as e:
            yield row.name, f"not measured: {e}"
            continue
        write_json(path, content)
        yield row.name, f"{content['seconds']:.0f} s"


def measured(row: Row, place: Place) -> dict[str, Any]:
    """A row with its settings, its lines, and what they were measured on."""
    load, began = os.getloadavg()[0], time.perf_counter()
    lines = list(row.measure(place))
    return {
        "row": row.name,
        "number": row.number,
        "settings": asdict(row),
        "hardware": hardware() | {"processor": _processor(), "memory_gib": _memory(), "load_before": load},
        "versions": versions(),
        "seconds": time.perf_counter() - began,
        "lines": [asdict(line) for line in lines],
    }


def read_rows(folder: Path) -> list[tuple[dict[str, Any], list[Line]]]:
    """The rows that were measured, in the table's order: what is said about each, and its lines."""
    found = [read_json(path) for path in sorted(folder.glob("*.json"))]
    return [(about, [_line(values) for values in about["lines"]]) for about in sorted(found, key=_order)]


def _order(about: dict[str, Any]) -> tuple[int, str]:
    return about["number"], about["row"]


def _line(values: dict[str, Any]) -> Line:
    goal = values["goal"]
    return Line(**{**values, "values": tuple(values["values"]), "goal": None if goal is None else Goal(**goal)})


def _processor() -> str | None:
    """The name of the processor, where Linux says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (OSError, ValueError, AttributeError):
        return None
