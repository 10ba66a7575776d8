"""`unsc forget`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from unsc.cli.arguments import (
    Decoders,
    DryRun,
    Json,
    Model,
    Overwrite,
    TrainingData,
    Transform,
    Weights,
    names,
    option_values,
    refuse_to_replace,
)
from unsc.progress import quiet


def command(
    model: Model,
    data: TrainingData,
    out: Annotated[Path, typer.Option(help="Folder for weights, config and metrics.")],
    weights: Weights = None,
    classes: Annotated[
        str | None, typer.Option(help="Classes to forget, names or numbers separated by commas.")
    ] = None,
    ids: Annotated[
        Path | None, typer.Option(help="Records to forget: CSV or JSON lines with a column id, or a column of users.")
    ] = None,
    validation: Annotated[
        str | None, typer.Option(help="Data that the model was not trained on, of the same kinds as --data.")
    ] = None,
    transform: Transform = None,
    options: Annotated[str | None, typer.Option(help="Options of unsc.forget, as in max_passes=4,step=paper.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of what is drawn at random.")] = 0,
    workers: Decoders = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    overwrite: Overwrite = False,
) -> None:
    """Forget classes or records from a model of your own, and say what was reached.

    Several processes share the work if torchrun starts them: torchrun --nproc-per-node 4 -m unsc forget ...

    Exit codes: 0 forgotten, 3 not forgotten (what was measured and what to try is printed), 2 a mistake in what was
    given, 130 stopped by Ctrl-C.
    """
    from unsc.cli.reached import show_reached, show_ready
    from unsc.cli.view import view
    from unsc.launch import launched
    from unsc.loading.in_workers import usual_workers
    from unsc.release import asked, once
    from unsc.release.reached import check_replaceable

    with launched() as speaks:
        (check_replaceable if overwrite else refuse_to_replace)(out)
        ready = once.get_ready(
            model,
            weights=weights,
            data=data,
            classes=names(classes),
            records=None if ids is None else asked.read_request(ids),
            validation=validation,
            transform=transform,
            workers=usual_workers() if workers is None else workers,
        )
        chosen = {"seed": seed} | option_values(options)
        if dry_run:
            return show_ready(ready, as_json=as_json) if speaks else None
        with view() if speaks else nullcontext(quiet) as progress:
            reached = ready.forget(progress=progress, **chosen)
        if speaks:
            reached.save(out, overwrite=overwrite)
            show_reached(reached, out, as_json=as_json)
    raise typer.Exit(0 if reached.ok else 3)
