"""Carry out `unsc bench steps`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from unsc.bench.steps import by_class
from unsc.bench.steps.setups import SETUPS, Place
from unsc.compare.grid import Grid
from unsc.errors import unknown
from unsc.progress import Progress, quiet

WITHOUT_FILES = ("digits", "mlp")


def run_steps(
    names: Sequence[str],
    out: Path,
    *,
    checkpoint: Path | None = None,
    fresh: bool = False,
    progress: Progress = quiet,
) -> Iterator[Grid]:
    """Measure the setups `names`, by default those that need no files, and give the table of each.

    Rows are written to `out` as `NAME.json` as they are measured, and a run that was stopped resumes from there unless
    it is to start `fresh`.
    """
    for name in names:
        if name not in SETUPS:
            raise unknown("setup", name, SETUPS)
    place = Place(out / "models", checkpoint, progress)
    for name in names or WITHOUT_FILES:
        path = out / f"{name}.json"
        if fresh:
            path.unlink(missing_ok=True)
        setup = SETUPS[name](place)
        yield by_class.table(setup, by_class.run(setup, path, progress=progress))
