"""`unsc bench networks`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unsc.cli.bench.options import WORK, Data, Folder, Preset, Work, read_from
from unsc.cli.output import written


def command(
    data: Data = "fashion-mnist",
    folder: Folder = None,
    preset: Preset = "cpu",
    work: Work = WORK,
    out: Annotated[Path, typer.Option(help="Where to keep them; name it with --networks later.")] = Path(
        "runs/networks"
    ),
) -> None:
    """Keep the trained networks of a data set, so that its tables can be made again without training."""
    from unsc.bench.kept_networks import keep_networks
    from unsc.bench.scenarios import full_name
    from unsc.compare.networks import Networks
    from unsc.compare.scenarios import scenario

    read_from(folder)
    name = full_name(data, preset)
    for path in keep_networks(Networks(work / "models" / name, name, scenario(name)), out):
        written(path)
