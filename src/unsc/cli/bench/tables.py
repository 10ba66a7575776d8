"""`unsc bench table1`, `ablation`, `multiclass` and `classes`: one command each, which differ in their experiments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console

from unsc.cli.arguments import Cluster
from unsc.cli.bench import render
from unsc.cli.bench.options import OUT, WORK, Data, Folder, Jobs, Out, Preset, Ready, Seed, Trials, Work, read_from
from unsc.cli.output import fail
from unsc.progress import bar

TABLES = {
    "table1": "All methods, one class forgotten (ten of CIFAR-100); includes the membership attack.",
    "ablation": "Rows I to V: original, retrained, random labels, null space, pseudo-labels; and ours.",
    "multiclass": "One to five classes forgotten at once, 10 to 50 of CIFAR-100.",
    "several": "The same without networks that are retrained: original, the paper's step, ours, and a mask.",
    "classes": "Each class in turn (tens of CIFAR-100), with all of its samples and nothing tuned: our step alone.",
}
"""The help of each command."""

Methods = Annotated[
    str | None, typer.Option(help="Some of the table's methods, separated by commas; others may follow in a later run.")
]


def command(table: str) -> Callable[..., None]:
    """The command that carries out the experiments of a table."""

    def run(
        data: Data = "fashion-mnist",
        folder: Folder = None,
        preset: Preset = "cpu",
        trials: Trials = 1,
        seed: Seed = 0,
        methods: Methods = None,
        jobs: Jobs = None,
        cluster: Cluster = None,
        networks: Ready = None,
        work: Work = WORK,
        out: Out = OUT,
    ) -> None:
        from unsc.bench.datasets import data_folder
        from unsc.bench.experiments import experiments
        from unsc.bench.kept_networks import take_networks
        from unsc.bench.origin import origin
        from unsc.bench.results import keep
        from unsc.cli.tables import show_results
        from unsc.compare import compare
        from unsc.compare.render import write_report
        from unsc.methods import split_names

        read_from(folder)
        console, failed, files = Console(), {}, None
        only = tuple(split_names(methods)) if methods else ()
        for experiment in experiments(table, data, preset=preset, trials=trials, seed=seed, only=only):
            place = work / experiment.config.data / experiment.comparison
            models = work / "models" / experiment.config.data
            if networks is not None:
                take_networks(experiment.config.data, networks, models)
            finished = compare(experiment.config, place, models=models, jobs=jobs, cluster=cluster, progress=bar)
            words = f"unsc bench {table} --data {data} --preset {preset} --trials {trials}"
            show_results(write_report(finished, words), console)
            files = files or origin(data, data_folder(data))  # the same for all, and hundreds of megabytes to read
            keep(experiment, finished.comparison, out, files)
            failed |= {f"{experiment.name} {what}": why for what, why in finished.failed.items()}
        render.command(out)
        fail(failed)

    return run
