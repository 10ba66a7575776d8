"""`unsc log`."""

from __future__ import annotations

from rich.console import Console

from unsc.cli.requests import AsJson, StoreFolder, entries_table, entry_as_dict, show_json


def command(store: StoreFolder, as_json: AsJson = False) -> None:
    """List the requests of a store: when, how far they got, and the weights before and after."""
    from unsc.release.ledger import read_ledger

    with read_ledger(store) as ledger:
        entries = ledger.entries()
    if as_json:
        show_json({"entries": [entry_as_dict(entry) for entry in entries]})
    else:
        Console().print(entries_table(entries))
