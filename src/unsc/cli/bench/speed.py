"""`unsc bench speed`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from unsc.cli.bench.options import Folder, read_from
from unsc.progress import bar


def command(
    names: Annotated[list[str] | None, typer.Argument(help="Rows; all by default. A wrong name lists them.")] = None,
    folder: Folder = None,
    checkpoint: Annotated[Path | None, typer.Option(help="The public resnet20-12fca82f.th, for CIFAR-10.")] = None,
    cifar_100: Annotated[
        Path | None, typer.Option(help="Weights of a ResNet-18 of width 0.25 with 100 outputs.")
    ] = None,
    densenet: Annotated[
        Path | None, typer.Option(help="Weights of a DenseNet-BC of 58 layers with a first stride of 2, for CIFAR-10.")
    ] = None,
    alexnet: Annotated[
        Path | None, typer.Option(help="Weights of the AlexNet for FashionMNIST; else it is trained for one epoch.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the rows; a stopped run resumes.")] = Path("runs/speed"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Measure again what was measured before, and replace it.")
    ] = False,
) -> None:
    """What a request costs: in epochs, in plain steps, in memory, and how it grows. Run it alone on the machine."""
    from unsc.bench.speed.page import grid
    from unsc.bench.speed.place import Place
    from unsc.bench.speed.run import run_speed
    from unsc.cli.tables import show_grid

    read_from(folder)
    named = os.environ.get("UNSC_DATA")
    files = Path(named) if named else None
    place = Place(out / "models", files, checkpoint, cifar_100, densenet, alexnet, bar)
    console = Console()
    for name, became in run_speed(names or (), out, place, fresh=overwrite):
        console.print(f"{name}: {became}", highlight=False)
    show_grid(grid(out), console)
