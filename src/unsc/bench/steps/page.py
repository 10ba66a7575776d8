"""The tables of `docs/steps.md`, made from the rows in `results/steps/`; the prose between them stays as it is."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from statistics import mean, stdev

from unsc.bench.marked import renewed
from unsc.bench.steps.by_class import Row
from unsc.errors import InvalidData

_PAIR = ("retain_test_acc", "forget_test_acc")


def write_page(results: Path) -> list[Path]:
    """Put the tables of `results/steps/NAME.json` into the page `docs/steps.md` beside the folder of results.

    A table goes between `<!-- NAME -->` and `<!-- end NAME -->`. Without such a page nothing is written.
    """
    sources = sorted((results / "steps").glob("*.json"))
    return renewed(results.parent / "docs" / "steps.md", {path.stem: partial(_table, path) for path in sources})


def _table(path: Path) -> str:
    try:
        rows = json.loads(path.read_text())["rows"]
        return by_class(rows)
    except (OSError, ValueError, LookupError, TypeError) as e:
        raise InvalidData(f"{path} does not hold rows of `unsc bench steps` ({e!r}); remove it, or run it again") from e


def by_class(rows: list[Row]) -> str:
    """A line for each class: retain / forget test accuracy by method, and what ours took."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    found = {(row["forget"], row["method"]): row for row in rows}
    classes = list(dict.fromkeys(row["forget"] for row in rows))
    lines = [f"| forgotten class | {' | '.join(methods)} | unsc: passes | retained KL | seconds |"]
    lines.append("|" + "---|" * (len(methods) + 4))
    for k in classes:
        pairs = [" / ".join(f"{found[k, m][c]:.2f}" for c in _PAIR) for m in methods]
        ours = found[k, "unsc"]
        took = f"{ours['passes']:.2f} | {ours['retained_kl']:.4f} | {ours['seconds']:.1f}"
        lines.append(f"| {k} | {' | '.join(pairs)} | {took} |")
    if len(classes) > 1:
        columns = [[[found[k, m][c] for k in classes] for c in _PAIR] for m in methods]
        pairs = [" / ".join(_spread(values) for values in pair) for pair in columns]
        ours = [[found[k, "unsc"][c] for k in classes] for c in ("passes", "retained_kl", "seconds")]
        lines.append(f"| mean ± sd, n = {len(classes)} | {' | '.join(pairs)} | {' | '.join(map(_spread, ours))} |")
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    digits = 4 if max(values) < 1 and any(values) else 2
    return f"{mean(values):.{digits}f} ± {stdev(values):.{digits}f}"
