"""The table of `docs/speed.md` and the picture of growth, made from the rows in `results/speed/`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from unsc.bench.marked import renewed
from unsc.bench.speed.extrapolate import exponents, to_imagenet
from unsc.bench.speed.plot import draw_growth
from unsc.bench.speed.row import Line
from unsc.bench.speed.run import read_rows
from unsc.compare.grid import Grid
from unsc.errors import InvalidData

_HEAD = ("row", "what", "against", "measured", "range, n", "goal", "reached")


def grid(folder: Path) -> Grid:
    """The rows that were measured, as a table."""
    try:
        return Grid(
            "Speed", _HEAD, tuple(tuple(_cells(about, line) for line in lines) for about, lines in read_rows(folder))
        )
    except (LookupError, TypeError, ValueError) as e:
        raise InvalidData(f"a file in {folder} does not hold a row of `unsc bench speed` ({e!r}); remove it") from e


def write_page(results: Path) -> list[Path]:
    """Put the table into the page `docs/speed.md` beside the folder of results, and growth into it and `docs/scale.md`.

    They go between `<!-- table -->` and `<!-- end table -->`, and between `<!-- growth -->` and its end. Without rows
    or such pages nothing is written.
    """
    docs, folder = results.parent / "docs", results / "speed"
    if not any(folder.glob("*.json")):
        return []
    rows = read_rows(folder)
    growth = [line for about, found in rows if about["row"] == "growth" for line in found]
    parts = {"table": partial(_table, folder), **({"growth": partial(_growth, growth, rows)} if growth else {})}
    pages = [*renewed(docs / "speed.md", parts), *renewed(docs / "scale.md", parts)]
    if not pages or not growth:
        return pages
    draw_growth(docs / "growth.png", growth)
    return [*pages, docs / "growth.png"]


def _table(folder: Path) -> str:
    return f"{replace(grid(folder), title='').markdown()}\n\n{_about(folder)}"


def _growth(lines: list[Line], rows: list[tuple[dict[str, Any], list[Line]]]) -> str:
    """The picture, the exponents, and what they come to for networks and data of ImageNet's size."""
    picture = "![How time grows with each factor](growth.png)"
    large = [to_imagenet(about, found) for about, found in rows if "seconds_per_sample" in found[0].noted]
    return "\n\n".join([picture, exponents(lines), *(["\n".join(large)] if large else [])])


def _cells(about: dict[str, Any], line: Line) -> tuple[str, ...]:
    low, high = min(line.values), max(line.values)
    spread = f"{_number(low)} to {_number(high)}, {len(line.values)}" if len(line.values) > 1 else "1"
    reached = "" if line.goal is None else "yes" if line.goal.reached(line.value) else "**no**"
    measured = f"{_number(line.value)} {line.unit}".strip()
    return about["row"], line.what, line.against, measured, spread, str(line.goal or ""), reached


def _about(folder: Path) -> str:
    """What the rows were measured on and with, each different one once."""
    machines, makes = {}, {}
    for about, _ in read_rows(folder):
        own, made = about["hardware"], about["versions"]
        processor = own["processor"] or own["machine"]
        machines[f"{processor}, {own['cores']} cores, {own['threads']} threads, {own['memory_gib']} GiB"] = None
        makes[f"unsc {made['unsc']} ({made.get('commit', 'no commit')}), torch {made['torch']}"] = None
    return f"Measured on: {'; '.join(machines)}. With: {'; '.join(makes)}."


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
