"""`unsc bench`: the paper's tables and figures, one command each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(no_args_is_help=True, help="Regenerate the paper's tables and figures on its data sets.")

Data = Annotated[str, typer.Option(help="fashion-mnist, svhn, cifar-10 or cifar-100.")]
Folder = Annotated[Path | None, typer.Option(help="Where the data's files are; by default UNSC_DATA says so.")]
Preset = Annotated[str, typer.Option(help="paper: as published, for a GPU; cpu: a few epochs.")]
Trials = Annotated[int, typer.Option(help="Each has its own seeds.")]
Seed = Annotated[int, typer.Option(help="All other seeds follow from it.")]
Jobs = Annotated[int | None, typer.Option(help="Processes; as many as there are cores by default.")]
Work = Annotated[Path, typer.Option(help="Folder for networks and unfinished work; it is gone on with.")]
Out = Annotated[Path, typer.Option(help="Folder for results, tables and figures.")]

_WORK, _OUT = Path("runs/bench"), Path("results")


@app.command()
def table1(
    data: Data = "fashion-mnist",
    folder: Folder = None,
    preset: Preset = "cpu",
    trials: Trials = 1,
    seed: Seed = 0,
    jobs: Jobs = None,
    work: Work = _WORK,
    out: Out = _OUT,
) -> None:
    """All methods, one class forgotten (ten of CIFAR-100); the membership attack is part of it."""
    _run("table1", data, folder, preset, trials, seed, jobs, work, out)


@app.command()
def ablation(
    data: Data = "fashion-mnist",
    folder: Folder = None,
    preset: Preset = "cpu",
    trials: Trials = 1,
    seed: Seed = 0,
    jobs: Jobs = None,
    work: Work = _WORK,
    out: Out = _OUT,
) -> None:
    """Rows I to V: original, retrained, random labels, null space, pseudo-labels; and ours."""
    _run("ablation", data, folder, preset, trials, seed, jobs, work, out)


@app.command()
def multiclass(
    data: Data = "fashion-mnist",
    folder: Folder = None,
    preset: Preset = "cpu",
    trials: Trials = 1,
    seed: Seed = 0,
    jobs: Jobs = None,
    work: Work = _WORK,
    out: Out = _OUT,
) -> None:
    """One to five classes forgotten at once, 10 to 50 of CIFAR-100."""
    _run("multiclass", data, folder, preset, trials, seed, jobs, work, out)


@app.command()
def fetch(
    data: Data = "fashion-mnist",
    folder: Annotated[Path, typer.Option(help="Where to put the files.")] = Path("data"),
) -> None:
    """Download a data set, checked by its published checksums."""
    from unsc.bench.download import fetch as download
    from unsc.progress import bar

    download(data, folder, progress=bar)
    Console().print(f"{data} is in {folder}; name it with --folder {folder}, or set UNSC_DATA", soft_wrap=True)


@app.command()
def render(out: Out = _OUT) -> None:
    """Make the tables from the result files alone."""
    from unsc.bench.tables import write_tables

    Console().print(f"Written: {write_tables(out)}", soft_wrap=True)


def _run(
    table: str,
    data: str,
    folder: Path | None,
    preset: str,
    trials: int,
    seed: int,
    jobs: int | None,
    work: Path,
    out: Path,
) -> None:
    from unsc.bench.experiments import experiments
    from unsc.bench.record import keep
    from unsc.bench.tables import write_tables
    from unsc.compare import compare
    from unsc.compare.render import write_report
    from unsc.progress import bar

    if folder is not None:
        os.environ["UNSC_DATA"] = str(folder.resolve())  # the workers read it
    console, failed = Console(), {}
    for experiment in experiments(table, data, preset=preset, trials=trials, seed=seed):
        place = work / experiment.config.data / experiment.name
        models = work / "models" / experiment.config.data
        finished = compare(experiment.config, place, models=models, jobs=jobs, progress=bar)
        write_report(finished, f"unsc bench {table} --data {data} --preset {preset} --trials {trials}", console)
        keep(experiment, finished.run, out)
        failed |= {f"{experiment.name} {what}": why for what, why in finished.failed.items()}
    console.print(f"Written: {write_tables(out)}", soft_wrap=True)
    for what, why in failed.items():
        Console(stderr=True).print(f"error: {what}: {why}", style="red", markup=False, soft_wrap=True)
    if failed:
        raise typer.Exit(1)
