"""The table of sequences in `docs/evaluation.md`, made from the rows in `results/sequences/`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import mean, stdev

from unsc.bench.marked import renewed
from unsc.bench.sequences.run import Row
from unsc.bench.sequences.setups import SETUPS
from unsc.errors import InvalidData

_HEADS = (
    "network", "sequences", "worst forgotten class (%), highest", "taken for a forgotten class (%), highest",
    "what stays (%)", "all five at once (%)", "original (%)", "requests that were not forgotten",
)  # fmt: skip


def write_page(results: Path) -> list[Path]:
    """Put the table between the marks `sequences` of the page `docs/evaluation.md` beside the folder of results.

    Without rows or such a page nothing is written.
    """
    found = [(name, path) for name in SETUPS if (path := results / "sequences" / f"{name}.json").exists()]
    parts = {"sequences": partial(_table, found)} if found else {}
    return renewed(results.parent / "docs" / "evaluation.md", parts)


def _table(found: Sequence[tuple[str, Path]]) -> str:
    lines = [f"| {' | '.join(_HEADS)} |", "|---|" + "--:|" * (len(_HEADS) - 1)]
    return "\n".join([*lines, *(_line(name, path) for name, path in found)])


def _line(name: str, path: Path) -> str:
    try:
        rows: list[Row] = json.loads(path.read_text())["rows"]
        highest = [f"{max(row[c] for row in rows):.2f}" for c in ("worst", "taken_for_gone")]
        means = [_spread([row[c] for row in rows]) for c in ("retain", "retain_at_once", "retain_original")]
        missed = sum(status != "forgotten" for row in rows for status in row["status"])
        asked = sum(len(row["status"]) for row in rows)
    except (OSError, ValueError, LookupError, TypeError) as e:
        raise InvalidData(f"{path} does not hold rows of `unsc bench sequences` ({e!r}); remove it") from e
    return f"| {name} | {len(rows)} | {' | '.join([*highest, *means])} | {missed} of {asked} |"


def _spread(values: list[float]) -> str:
    return f"{mean(values):.2f} ± {stdev(values):.2f}" if len(values) > 1 else f"{values[0]:.2f}"
