"""`unsc demo`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from unsc.cli.arguments import Overwrite, numbers, refuse_to_replace
from unsc.cli.output import written
from unsc.cli.report import tell
from unsc.progress import bar

if TYPE_CHECKING:
    from unsc.bench.demo import Row


def command(
    classes: Annotated[str, typer.Option(help="Digits to forget, separated by commas.")] = "3",
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Seed of training and forgetting.")] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Train a small CNN on handwritten digits, forget a class in several ways, and compare."""
    from unsc.bench.demo import demo
    from unsc.bench.speed.clock import threads
    from unsc.evaluation.side_by_side import FILE
    from unsc.report.page import NAME, write_report
    from unsc.storage.places import check_place

    chosen = numbers(classes, "--classes")
    if not overwrite:
        refuse_to_replace(out)
    check_place(out)
    with threads(1):  # networks this small lose more by handing work to threads than these give back
        rows = demo(chosen, out=out, seed=seed, progress=bar)
    show(rows, chosen, Console())
    written(out, "metrics.json", "config.json", FILE, "two checkpoints", "class_accuracy.png", NAME)
    tell(write_report([out], out / NAME))


def show(rows: dict[str, Row], classes: Iterable[int], console: Console) -> None:
    """Print what the demo has measured."""
    from unsc.bench.demo import table
    from unsc.cli.tables import show_grid

    show_grid(table(rows, classes), console)
    console.print("Accuracy: percent of test data. Drift: largest relative change of a layer's retained outputs.")
