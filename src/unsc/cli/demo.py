"""`unsc demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from unsc.cli.arguments import Overwrite, numbers, refuse_to_replace
from unsc.cli.output import written
from unsc.cli.progress import bar


def command(
    classes: Annotated[str, typer.Option(help="Digits to forget, separated by commas.")] = "3",
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Seed of training and forgetting.")] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Train a small CNN on handwritten digits, forget a class in several ways, and compare."""
    from unsc.bench.demo import demo, show

    chosen = numbers(classes, "--classes")
    if not overwrite:
        refuse_to_replace(out)
    rows = demo(chosen, out=out, seed=seed, progress=bar)
    show(rows, chosen, Console())
    written(out, "metrics.json", "config.json", "two checkpoints", "class_accuracy.png")
