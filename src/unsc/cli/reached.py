"""What `unsc forget` prints."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from unsc.cli.output import written
from unsc.release.once import Ready
from unsc.release.reached import Reached


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
    written(out, "model.safetensors", "config.json", "metrics.json", *(["model"] if reached.model.takes else []))


def _say(text: str) -> None:
    Console().print(text, soft_wrap=True, markup=False, highlight=False)
