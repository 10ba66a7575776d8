"""`unsc show`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from unsc.cli.requests import AsJson, StoreFolder, entries_table, entry_as_dict, say, show_json, verdict_table


def command(
    request: Annotated[int, typer.Argument(help="Its number in `unsc log`.")],
    store: StoreFolder,
    as_json: AsJson = False,
) -> None:
    """Show a request: its states in time, what was measured, what the gate said."""
    from unsc.release.ledger import read_ledger

    with read_ledger(store) as ledger:
        entry, timings = ledger.entry(request), ledger.timings(request)
    if as_json:
        show_json({**entry_as_dict(entry), "timings": timings})
        return
    Console().print(entries_table([entry]))
    say(f"Results: {entry.out}", *(f"{at - entry.began:8.2f} s  {state}" for state, at in timings))
    if verdicts := entry.result.get("verdicts"):
        Console().print(verdict_table(verdicts))
    say(str(entry.result.get("promise", "")))
