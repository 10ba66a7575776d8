"""`unsc tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from unsc.cli.arguments import DATA, Overwrite, default_folder, result_file
from unsc.cli.output import written
from unsc.progress import bar


def command(
    method: Annotated[str, typer.Argument(help="The method; `unsc methods` lists them.")],
    data: Annotated[str, typer.Option(help=DATA)] = "digits",
    tries: Annotated[int, typer.Option("--tries", "--trials", help="How many settings to try.")] = 30,
    seconds: Annotated[float, typer.Option(help="Time limit for all of them.")] = 30.0,
    seed: Annotated[int, typer.Option(help="Seed of the network and the search.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="File or folder; runs/tune-DATA/METHOD.json by default. A search that was stopped resumes."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Choose a method's settings on validation data; the test data is used once, at the end."""
    from unsc.cli.tables import tuned_table
    from unsc.compare.choose import choose

    path = result_file(out or default_folder("tune", data), f"{method}.json")
    tuned, test = choose(
        method, data, tries=tries, seconds=seconds, seed=seed, path=path, overwrite=overwrite, progress=bar
    )
    console = Console()
    console.print(tuned_table(tuned))
    console.print(f"Chosen on validation data: {tuned.best.settings or 'nothing to choose'}", markup=False)
    console.print(f"On test data, once: retain {test['retain_acc']:.2f} %, forget {test['forget_acc']:.2f} %")
    written(path)
