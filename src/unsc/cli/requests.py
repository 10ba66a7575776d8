"""What the commands about requests read and print in the same way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from unsc.release.canonical import plain
from unsc.release.keys import PrivateKey, default_key, refuse_inside
from unsc.release.ledger import Entry
from unsc.release.policy import Policy

StoreFolder = Annotated[Path, typer.Option("--store", help="The store that `unsc prepare` made.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]
PolicyFile = Annotated[Path | None, typer.Option("--policy", help="TOML file with the limits of the gate.")]
KeyFile = Annotated[Path | None, typer.Option("--key", help="Private key; made in your settings' folder if missing.")]


def policy_in(path: Path | None) -> Policy:
    return Policy() if path is None else Policy.load(path)


def signing_key(path: Path | None, *folders: Path) -> PrivateKey:
    """The key in a file outside of these folders; a new one if there is none."""
    path = path or default_key()
    refuse_inside(path, *folders)
    return PrivateKey.load_or_create(path)


def show_json(content: object) -> None:
    print(json.dumps(plain(content), indent=2, sort_keys=True))


def entry_as_dict(entry: Entry) -> dict[str, Any]:
    return {**asdict(entry), "seconds": entry.seconds}


def verdict_table(verdicts: Sequence[Mapping[str, Any]]) -> Table:
    """What the gate held against which limit."""
    table = Table("check", "found", "limit", "how", "passed", title="Gate")
    for verdict in verdicts:
        found = "?" if verdict["measured"] is None else f"{_short(verdict['measured'])} {verdict['unit']}"
        passed = "yes" if verdict["passed"] else "NO"
        cells = verdict["check"], found, _short(verdict["limit"]), verdict["source"], passed
        table.add_row(*(Text(str(cell)) for cell in cells))
    return table


def entries_table(entries: Sequence[Entry]) -> Table:
    table = Table("request", "kind", "state", "began", "seconds", "from", "to", title="Requests")
    for entry in entries:
        began = datetime.fromtimestamp(entry.began, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
        weights = entry.parent[:12], (entry.child or "")[:12]
        cells = str(entry.number), entry.kind, entry.state, began, f"{entry.seconds:.1f}", *weights
        table.add_row(*map(Text, cells))
    return table


def say(*lines: str) -> None:
    console = Console()
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) else str(value)
