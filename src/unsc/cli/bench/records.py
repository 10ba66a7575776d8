"""`unsc bench records`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from unsc.cli.bench.options import Folder, read_from


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="mislabelled, sequence, amounts, photographs; by default the first three."),
    ] = None,
    folder: Folder = None,
    out: Annotated[Path, typer.Option(help="Folder for rows and networks; a stopped run resumes.")] = Path(
        "runs/records"
    ),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Measure again what was measured before.")] = False,
) -> None:
    """Records: mislabelled ones, in sequence, in any number, and, with CIFAR-10, beside retraining."""
    from unsc.bench.records.run import run_records
    from unsc.cli.tables import show_grid

    read_from(folder)
    for grid in run_records(names or (), out, fresh=overwrite):
        show_grid(grid, Console())
