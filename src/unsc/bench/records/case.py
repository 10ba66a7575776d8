"""What a case of `unsc bench records` is: rows that are measured seed by seed, and the columns they are shown in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any, TypeAlias

from unsc.compare.grid import Grid
from unsc.storage.files import write_json
from unsc.storage.versions import versions

Row: TypeAlias = dict[str, Any]
"""`what` was measured, the `seed`, and figures by name. Accuracies are in percent of the test data."""


@dataclass(frozen=True)
class Case:
    """Rows of several seeds, none of which served to choose anything."""

    name: str
    about: str
    columns: Mapping[str, str]
    """Headings by the name of the figure."""
    seeds: tuple[int, ...]
    measure: Callable[[Path, int], Iterator[Row]]
    """The rows of a seed; networks that take long to train are kept in the folder."""

    def run(self, path: Path, models: Path) -> list[Row]:
        """All rows, written to `path` after each seed; seeds that are there are not measured again."""
        rows: list[Row] = json.loads(path.read_text())["rows"] if path.exists() else []
        known = {row["seed"] for row in rows}
        for seed in self.seeds:
            if seed not in known:
                rows += [{"seed": seed, **row} for row in self.measure(models, seed)]
                write_json(path, {"case": self.name, "versions": versions(), "rows": rows})
        return rows

    def table(self, rows: list[Row]) -> Grid:
        """Mean and standard deviation over the rows that are of the same thing."""
        lines = []
        for what in dict.fromkeys(row["what"] for row in rows):
            own = [row for row in rows if row["what"] == what]
            lines.append((what, *(_cell([row[c] for row in own if c in row]) for c in self.columns)))
        seeds = len({row["seed"] for row in rows})
        return Grid(f"{self.about} (n = {seeds})", ("", *self.columns.values()), (tuple(lines),))


def _cell(values: list[Any]) -> str:
    if not values:
        return ""
    if isinstance(values[0], str):
        return ", ".join(sorted(set(values)))
    digits = 3 if max(map(abs, values)) < 1 else 2
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{spread}"
