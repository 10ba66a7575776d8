"""`unsc forget` with all data at hand, and what it prints."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from unsc.cli.output import written
from unsc.errors import InvalidRequest
from unsc.progress import quiet
from unsc.release.once import Ready
from unsc.release.reached import REPORT_DATA, TRANSFORMERS, Reached


def forget_at_once(
    asked: Mapping[str, Any], out: Path | None, options: Mapping[str, Any], *, as_json: bool, overwrite: bool
) -> bool:
    """Forget with all data at hand, show what was reached and write it to `out`; with None only say what would be."""
    from unsc.cli.view import view
    from unsc.launch import launched
    from unsc.release.asked import read_request
    from unsc.release.once import get_ready

    given = dict(asked)
    ids = given.pop("ids")
    for name in ("model", "data"):
        if given[name] is None:
            raise InvalidRequest(f"--{name} is missing; give a model and its training data, or a store (--store)")
    with launched() as speaks:
        ready = get_ready(given.pop("model"), records=None if ids is None else read_request(ids), **given)
        if out is None:
            if speaks:
                show_ready(ready, as_json=as_json)
            return True
        with view() if speaks else nullcontext(quiet) as progress:
            reached = ready.forget(progress=progress, **options)
        if speaks:
            reached.save(out, overwrite=overwrite)
            show_reached(reached, out, as_json=as_json)
    return reached.ok


def show_ready(ready: Ready, *, as_json: bool) -> None:
    """What would be done."""
    told = {"request": ready.kind, "samples": ready.samples, "of": len(ready.data), "promise": ready.promise}
    if as_json:
        print(json.dumps(told, indent=2))
        return
    _say(ready.promise)
    _say("Nothing was changed or written.")


def show_reached(reached: Reached, out: Path, *, as_json: bool) -> None:
    """What was reached, and what to try if it was not enough."""
    if as_json:
        print(json.dumps(reached.to_dict() | {"out": str(out)}, indent=2))
        return
    table = Table("", "before", "after", title=Text(reached.title))
    for column in table.columns[1:]:
        column.justify = "right"
    for line in reached.lines:
        table.add_row(Text(line.what), Text(line.before), Text(line.after))
    Console().print(table)
    metrics = reached.result.metrics
    _say(f"{metrics.steps} steps in {metrics.seconds:.1f} s.")
    _say(metrics.promise)
    for one in reached.advice:
        _say(f"Try: {one}")
    files = ("model.safetensors", "config.json", "metrics.json", REPORT_DATA)
    written(out, *files, *([TRANSFORMERS] if reached.model.takes else []))
    _say(f"Next: unsc report {shlex.quote(str(out))}")


def _say(text: str) -> None:
    Console().print(text, soft_wrap=True, markup=False, highlight=False)
