"""`unsc bench`: the paper's tables and figures, one command each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(no_args_is_help=True, help="Regenerate the paper's tables and figures on its data sets.")

Data = Annotated[str, typer.Option(help="fashion-mnist, svhn, cifar-10 or cifar-100.")]
Scenario = Annotated[str, typer.Option(help="A data set; svhn@paper for results of the preset paper.")]
Folder = Annotated[Path | None, typer.Option(help="Where the data's files are; by default UNSC_DATA says so.")]
Preset = Annotated[str, typer.Option(help="paper: as published, for a GPU; cpu: a few epochs.")]
Trials = Annotated[int, typer.Option(help="Each has its own seeds.")]
Seed = Annotated[int, typer.Option(help="All other seeds follow from it.")]
Jobs = Annotated[int | None, typer.Option(help="Processes; as many as there are cores by default.")]
Work = Annotated[Path, typer.Option(help="Folder for networks and unfinished work; it is gone on with.")]
Out = Annotated[Path, typer.Option(help="Folder for results, tables and figures.")]

_WORK, _OUT = Path("runs/bench"), Path("results")


def _table(name: str, about: str) -> None:
    """Add a command that carries out the experiments of a table."""

    def command(
        data: Data = "fashion-mnist",
        folder: Folder = None,
        preset: Preset = "cpu",
        trials: Trials = 1,
        seed: Seed = 0,
        jobs: Jobs = None,
        work: Work = _WORK,
        out: Out = _OUT,
    ) -> None:
        _run(name, data, folder, preset, trials, seed, jobs, work, out)

    app.command(name, help=about)(command)


_table("table1", "All methods, one class forgotten (ten of CIFAR-100); the membership attack is part of it.")
_table("ablation", "Rows I to V: original, retrained, random labels, null space, pseudo-labels; and ours.")
_table("multiclass", "One to five classes forgotten at once, 10 to 50 of CIFAR-100.")
_table(
    "classes", "Each class by itself (tens of CIFAR-100), with all of its samples and nothing tuned: our step alone."
)


@app.command()
def figures(
    data: Annotated[str, typer.Option(help="fashion-mnist, svhn, cifar-10, cifar-100, or toy.")] = "fashion-mnist",
    folder: Folder = None,
    preset: Preset = "cpu",
    seed: Seed = 0,
    work: Work = _WORK,
    out: Out = _OUT,
) -> None:
    """Pseudo-labels, loss contour, latent space and accuracy by class; or the toy example, which needs no data."""
    from unsc.bench.figures.shared.make import measure_figures
    from unsc.progress import bar

    _read_from(folder)
    failed = measure_figures(data, out, work=work, preset=preset, seed=seed, progress=bar)
    _render(out)
    _end(failed)


@app.command()
def mia(data: Scenario = "fashion-mnist", out: Out = _OUT) -> None:
    """The membership attack as bars, from the results of table1."""
    from unsc.bench.figures.shared.make import draw_results

    for path in draw_results("mia", data, out):
        Console().print(f"Written: {path}", soft_wrap=True)


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
    """Make the tables and figures from the result files alone."""
    _render(out)


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
    from unsc.bench.datasets import data_folder
    from unsc.bench.experiments import experiments
    from unsc.bench.origin import origin
    from unsc.bench.results import keep
    from unsc.compare import compare
    from unsc.compare.render import write_report
    from unsc.progress import bar

    _read_from(folder)
    console, failed, files = Console(), {}, None
    for experiment in experiments(table, data, preset=preset, trials=trials, seed=seed):
        place = work / experiment.config.data / experiment.comparison
        models = work / "models" / experiment.config.data
        finished = compare(experiment.config, place, models=models, jobs=jobs, progress=bar)
        write_report(finished, f"unsc bench {table} --data {data} --preset {preset} --trials {trials}", console)
        files = files or origin(data, data_folder(data))  # the same for all, and hundreds of megabytes to read
        keep(experiment, finished.comparison, out, files)
        failed |= {f"{experiment.name} {what}": why for what, why in finished.failed.items()}
    _render(out)
    _end(failed)


def _read_from(folder: Path | None) -> None:
    if folder is not None:
        os.environ["UNSC_DATA"] = str(folder.resolve())  # the workers read it


def _render(out: Path) -> None:
    """Draw what the files in `out` allow for, then write the page that shows it."""
    from unsc.bench.figures.shared.make import draw_all
    from unsc.bench.steps.page import write_page
    from unsc.bench.tables import write_tables

    for path in (*draw_all(out), write_tables(out), *write_page(out)):
        Console().print(f"Written: {path}", soft_wrap=True)


def _end(failed: dict[str, str]) -> None:
    """Say what could not be done, if anything."""
    for what, why in failed.items():
        Console(stderr=True).print(f"error: {what}: {why}", style="red", markup=False, soft_wrap=True)
    if failed:
        raise typer.Exit(1)


@app.command()
def steps(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="digits, records, mlp, alexnet, resnet20; by default the first three."),
    ] = None,
    folder: Folder = None,
    checkpoint: Annotated[Path | None, typer.Option(help="The public resnet20-12fca82f.th, for resnet20.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the rows; a stopped run resumes.")] = Path("runs/steps"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what was measured before.")] = False,
) -> None:
    """Our step and the paper's: each class forgotten in turn, and single records."""
    from unsc.bench.steps.run import run_steps
    from unsc.progress import bar

    _read_from(folder)
    for grid in run_steps(names or (), out, checkpoint=checkpoint, fresh=fresh, progress=bar):
        grid.show(Console())
