"""`unsc bench table1`, `ablation`, `multiclass` and `classes`: one command each, which differ in their experiments."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from unsc.cli.bench import render
from unsc.cli.bench.options import OUT, WORK, Data, Folder, Jobs, Out, Preset, Seed, Trials, Work, read_from
from unsc.cli.output import fail
from unsc.progress import bar

TABLES = {
    "table1": "All methods, one class forgotten (ten of CIFAR-100); includes the membership attack.",
    "ablation": "Rows I to V: original, retrained, random labels, null space, pseudo-labels; and ours.",
    "multiclass": "One to five classes forgotten at once, 10 to 50 of CIFAR-100.",
    "classes": "Each class in turn (tens of CIFAR-100), with all of its samples and nothing tuned: our step alone.",
}
"""The help of each command."""


def command(table: str) -> Callable[..., None]:
    """The command that carries out the experiments of a table."""

    def run(
        data: Data = "fashion-mnist",
        folder: Folder = None,
        preset: Preset = "cpu",
        trials: Trials = 1,
        seed: Seed = 0,
        jobs: Jobs = None,
        work: Work = WORK,
        out: Out = OUT,
    ) -> None:
        from unsc.bench.datasets import data_folder
        from unsc.bench.experiments import experiments
        from unsc.bench.origin import origin
        from unsc.bench.results import keep
        from unsc.cli.tables import show_results
        from unsc.compare import compare
        from unsc.compare.render import write_report

        read_from(folder)
        console, failed, files = Console(), {}, None
        for experiment in experiments(table, data, preset=preset, trials=trials, seed=seed):
            place = work / experiment.config.data / experiment.comparison
            models = work / "models" / experiment.config.data
            finished = compare(experiment.config, place, models=models, jobs=jobs, progress=bar)
            words = f"unsc bench {table} --data {data} --preset {preset} --trials {trials}"
            show_results(write_report(finished, words), console)
            files = files or origin(data, data_folder(data))  # the same for all, and hundreds of megabytes to read
            keep(experiment, finished.comparison, out, files)
            failed |= {f"{experiment.name} {what}": why for what, why in finished.failed.items()}
        render.command(out)
        fail(failed)

    return run
