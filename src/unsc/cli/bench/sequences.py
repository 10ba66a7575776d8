"""`unsc bench sequences`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from unsc.progress import bar


def command(
    names: Annotated[
        list[str] | None, typer.Argument(help="cnn, mlp, resnet8, tokens; by default all of them.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the rows; a stopped run resumes.")] = Path("runs/sequences"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Measure again what was measured before, and replace it.")
    ] = False,
) -> None:
    """Five classes forgotten one after the other, beside all of them at once."""
    from unsc.bench.sequences.run import run_sequences
    from unsc.cli.tables import show_grid

    for grid in run_sequences(names or (), out, fresh=overwrite, progress=bar):
        show_grid(grid, Console())
