"""`unsc forget`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unsc.cli.arguments import (
    Decoders,
    DryRun,
    Json,
    Overwrite,
    Transform,
    Weights,
    names,
    option_values,
    refuse_options,
    refuse_to_replace,
)
from unsc.cli.requests import KeyFile, PolicyFile

_REQUEST = "With a store: what to forget, CSV or JSON lines with class, id or a column of users."
_MODEL = "Without a store: package.module:factory, or a folder that transformers saved."
_DATA = "Training data, as for `unsc prepare`. With a store: where the samples to forget are, if not there any more."
_IDS = "Without a store: records to forget, CSV or JSON lines with id or a column of users."
_VALIDATION = "Data that the model was not trained on, of the same kinds as training data."


def command(
    out: Annotated[Path, typer.Option(help="Folder for the results.")],
    store: Annotated[Path | None, typer.Option(help="The store that `unsc prepare` made.")] = None,
    request: Annotated[Path | None, typer.Option(help=_REQUEST)] = None,
    model: Annotated[str | None, typer.Option(help=_MODEL)] = None,
    data: Annotated[str | None, typer.Option(help=_DATA)] = None,
    weights: Weights = None,
    classes: Annotated[str | None, typer.Option(help="Classes to forget, names or numbers, with commas.")] = None,
    ids: Annotated[Path | None, typer.Option(help=_IDS)] = None,
    validation: Annotated[str | None, typer.Option(help=_VALIDATION)] = None,
    policy: PolicyFile = None,
    key: KeyFile = None,
    transform: Transform = None,
    options: Annotated[str | None, typer.Option(help="Options of unsc.forget, as in max_passes=4,budget=2e-4.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of what is drawn at random.")] = 0,
    workers: Decoders = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    overwrite: Overwrite = False,
) -> None:
    """Forget classes or records from a model of your own: from a store, or with all training data at hand.

    Without a store, several processes share the work: torchrun --nproc-per-node 4 -m unsc forget ...

    With --store what passes the gate is released with a signed receipt. Exit codes: 0 forgotten (with a store:
    released), 3 not forgotten, or refused by the gate (what was measured and what to try is printed), 2 a mistake in
    what was given, 130 stopped by Ctrl-C.
    """
    from unsc.cli.reached import forget_at_once
    from unsc.cli.stored import forget_from_store
    from unsc.launch import refuse_ranks
    from unsc.loading.in_workers import usual_workers
    from unsc.options import Options
    from unsc.release.asked import either_of
    from unsc.release.reached import check_replaceable
    from unsc.storage.places import check_place

    chosen = {"seed": seed} | option_values(options)
    Options.from_keywords(chosen)  # a mistake is said before anything is read
    given = {"data": data, "weights": weights, "validation": validation}
    given["workers"] = usual_workers() if workers is None else workers
    folder = None if dry_run else out
    if store is not None:
        refuse_ranks("a store is changed by one process")
        refuse_options("with --store", model=model, ids=ids, transform=transform, overwrite=overwrite or None)
        settings = {"policy": policy, **given, **chosen}
        ok = forget_from_store(store, either_of(request, names(classes)), folder, key, settings, as_json=as_json)
    else:
        refuse_options("without --store", request=request, policy=policy, key=key)
        (check_replaceable if overwrite else refuse_to_replace)(out)
        check_place(out, read=(model, weights, ids), data=(data, validation))
        asked = {"model": model, "classes": names(classes), "ids": ids, "transform": transform, **given}
        ok = forget_at_once(asked, folder, chosen, as_json=as_json, overwrite=overwrite)
    if not ok:
        raise typer.Exit(3)
