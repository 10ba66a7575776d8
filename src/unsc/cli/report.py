"""`unsc report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def command(
    runs: Annotated[list[Path], typer.Argument(help="Folders that unsc forget, demo, compare or bench wrote.")],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write; by default report.html, in the run's folder if there is one run."),
    ] = None,
) -> None:
    """Write one HTML file about runs, from their folders alone: it opens from disk and needs nothing beside itself."""
    from unsc.report.page import NAME, write_report

    tell(write_report(runs, out or (runs[0] / NAME if len(runs) == 1 else Path(NAME))))


def tell(path: Path) -> None:
    """The line that opens a report."""
    Console().print(f"Open the report: {path.resolve().as_uri()}", highlight=False, soft_wrap=True)
