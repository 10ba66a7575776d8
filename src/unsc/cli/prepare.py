"""`unsc prepare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unsc.cli.arguments import Decoders, Json, Model, TrainingData, Transform, Weights, names


def command(
    model: Model,
    data: TrainingData,
    out: Annotated[Path, typer.Option(help="A new folder for the store.")],
    weights: Weights = None,
    canaries: Annotated[int, typer.Option(help="Training samples to keep in the store, to measure on later.")] = 0,
    columns: Annotated[
        str | None, typer.Option(help="Columns that say whose a sample is; user or user_id by default.")
    ] = None,
    transform: Transform = None,
    workers: Decoders = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Load everything, estimate size and time, and write nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Prepare a store, once after training: later requests then need no retained data.

    Size and time are estimated and shown first. Exit codes: 0 prepared, 2 a mistake in what was given.
    """
    from unsc.cli.stored import show_estimate, show_store
    from unsc.cli.view import view
    from unsc.loading.in_workers import usual_workers
    from unsc.release.preparing import plan_store
    from unsc.release.store import check_new
    from unsc.storage.places import check_place

    check_new(out)
    check_place(out, read=(model, weights), data=(data,))
    planned = plan_store(
        model,
        weights=weights,
        data=data,
        canaries=canaries,
        columns=names(columns),
        transform=transform,
        workers=usual_workers() if workers is None else workers,
    )
    estimate = planned.estimate()
    show_estimate(planned, estimate, as_json=as_json and dry_run)
    if dry_run:
        return
    with view() as progress:
        store = planned.make(out, progress=progress)
    show_store(store, estimate, as_json=as_json)
