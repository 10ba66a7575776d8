"""Options that the commands of `unsc bench` share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[str, typer.Option(help="fashion-mnist, svhn, cifar-10 or cifar-100.")]
Scenario = Annotated[str, typer.Option(help="A data set; svhn@paper for results of the preset paper.")]
Folder = Annotated[Path | None, typer.Option(help="Where the data's files are; by default the folder UNSC_DATA.")]
Preset = Annotated[
    str, typer.Option(help="paper: as published, for a GPU; recipe: the same, shorter; cpu: a few epochs; long: more.")
]
Trials = Annotated[int, typer.Option(help="How many repetitions, each with its own seeds.")]
Seed = Annotated[int, typer.Option(help="All other seeds follow from it.")]
Jobs = Annotated[int | None, typer.Option(help="Processes; one for each core by default.")]
Work = Annotated[Path, typer.Option(help="Folder for networks and unfinished work, which is resumed.")]
Ready = Annotated[
    Path | None,
    typer.Option("--networks", help="Folder of networks that are trained already: results/networks."),
]
Out = Annotated[
    Path, typer.Option(help="Folder for results, tables and figures; those committed to the repository are in results.")
]

WORK, OUT = Path("runs/bench"), Path("runs/results")


def read_from(folder: Path | None) -> None:
    """Take the data from `folder`, here and in the processes that are started."""
    if folder is not None:
        os.environ["UNSC_DATA"] = str(folder.resolve())
