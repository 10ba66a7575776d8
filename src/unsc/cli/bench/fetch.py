"""`unsc bench fetch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from unsc.cli.bench.options import Data
from unsc.progress import bar


def command(
    data: Data = "fashion-mnist",
    folder: Annotated[Path, typer.Option(help="Where to put the files.")] = Path("data"),
) -> None:
    """Download a data set and check it against its published checksums."""
    from unsc.bench.download import fetch

    fetch(data, folder, progress=bar)
    Console().print(f"{data} is in {folder}; name it with --folder {folder}, or set UNSC_DATA", soft_wrap=True)
