"""`unsc bench steps`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from unsc.cli.bench.options import Folder, read_from
from unsc.progress import bar


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="digits, mlp, alexnet, resnet20, resnet20-25; by default the first two."),
    ] = None,
    folder: Folder = None,
    checkpoint: Annotated[Path | None, typer.Option(help="The public resnet20-12fca82f.th, for resnet20.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the rows; a stopped run resumes.")] = Path("runs/steps"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", "--fresh", help="Measure again what was measured before, and replace it.")
    ] = False,
) -> None:
    """Our step and the paper's: each class forgotten in turn."""
    from unsc.bench.steps.run import run_steps
    from unsc.cli.tables import show_grid

    read_from(folder)
    for grid in run_steps(names or (), out, checkpoint=checkpoint, fresh=overwrite, progress=bar):
        show_grid(grid, Console())
