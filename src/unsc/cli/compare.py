"""`unsc compare`."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from unsc.cli.arguments import DATA, Cluster, Overwrite, default_folder, names
from unsc.cli.output import fail, written

_OUT = "Folder, runs/compare-DATA by default; a comparison in it is resumed."


def command(
    data: Annotated[str, typer.Option(help=DATA)] = "digits",
    methods: Annotated[str, typer.Option(help="all, or names separated by commas.")] = "all",
    request: Annotated[str, typer.Option(help="What is forgotten: classes, or records drawn at random.")] = "classes",
    records: Annotated[int | None, typer.Option(help="How many records; a twentieth of the data by default.")] = None,
    trials: Annotated[int, typer.Option(help="Each has its own seeds and forgets another class or records.")] = 3,
    tune_tries: Annotated[
        int,
        typer.Option("--tune-tries", "--tune-trials", help="How many settings to try for each; 0 for published ones."),
    ] = 30,
    tune_seconds: Annotated[float, typer.Option(help="Time limit for tuning each method.")] = 30.0,
    shadows: Annotated[int, typer.Option(help="Shadow models of each kind; references are twice as many.")] = 4,
    metrics: Annotated[str | None, typer.Option(help="Names separated by commas; all by default.")] = None,
    later: Annotated[int, typer.Option(help="Classes to forget afterwards, one by one, for the rebound.")] = 1,
    seed: Annotated[int, typer.Option(help="All other seeds follow from it.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Processes; one for each core by default.")] = None,
    cluster: Cluster = None,
    out: Annotated[Path | None, typer.Option(help=_OUT)] = None,
    overwrite: Overwrite = False,
) -> None:
    """Compare methods, all tuned and measured in the same way; a comparison that was stopped is resumed."""
    from unsc.cli.tables import show_results
    from unsc.cli.watched import watched
    from unsc.compare import Config, chosen_methods, compare
    from unsc.compare.render import write_report
    from unsc.loading.code import import_callable

    if ":" in data:
        import_callable(data)  # its module may register methods
    config = Config(
        data,
        chosen_methods(methods, request),
        trials,
        seed,
        tune_tries,
        tune_seconds,
        shadows,
        names(metrics),
        request=request,  # type: ignore[arg-type]
        records=records,
        later=later,
    )
    folder = out or default_folder("compare" if request == "classes" else f"compare-{request}", data)
    with watched(config, folder) as view:
        shown = partial(compare, progress=view.progress, done=view.done)
        finished = shown(config, folder, jobs=jobs, cluster=cluster, overwrite=overwrite)
    if not finished.measured:
        Console().print(f"All results are in {folder} already; nothing was left to do.", soft_wrap=True, markup=False)
    show_results(write_report(finished, shlex.join(["unsc", *sys.argv[1:]])), Console())
    written(folder, "report.md", "scorecard.png", "results.json", "results.csv", "config.json")
    fail(finished.failed)
