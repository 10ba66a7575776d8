"""Carry out `unsc bench records`, and put its tables into the page on records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from unsc.bench.marked import renewed
from unsc.bench.records import amounts, mislabelled, photographs, sequence
from unsc.compare.grid import Grid
from unsc.errors import InvalidData, unknown

CASES = {case.name: case for case in (mislabelled.CASE, sequence.CASE, amounts.CASE, photographs.CASE)}
WITHOUT_FILES = ("mislabelled", "sequence", "amounts")


def run_records(names: Sequence[str], out: Path, *, fresh: bool = False) -> Iterator[Grid]:
    """Measure the cases `names`, by default those that need no files, and give the table of each.

    Rows are written to `out` as `NAME.json`, seed by seed, and networks to `out/models/NAME`; a run that was stopped
    resumes from there unless it is to start `fresh`.
    """
    for name in names:
        if name not in CASES:
            raise unknown("case", name, CASES)
    for name in names or WITHOUT_FILES:
        path = out / f"{name}.json"
        if fresh:
            path.unlink(missing_ok=True)
        case = CASES[name]
        yield case.table(case.run(path, out / "models" / name))


def write_page(results: Path) -> list[Path]:
    """Put the tables of `results/records/NAME.json` into `docs/records.md` beside the folder of results.

    A table goes between `<!-- NAME -->` and `<!-- end NAME -->`. Without such a page nothing is written.
    """
    sources = sorted((results / "records").glob("*.json"))
    return renewed(results.parent / "docs" / "records.md", {path.stem: partial(_table, path) for path in sources})


def _table(path: Path) -> str:
    try:
        return CASES[path.stem].table(json.loads(path.read_text())["rows"]).markdown()
    except (OSError, ValueError, LookupError, TypeError) as e:
        raise InvalidData(
            f"{path} does not hold rows of `unsc bench records` ({e!r}); remove it, or run it again"
        ) from e
