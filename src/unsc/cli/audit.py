"""`unsc audit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

import unsc
from unsc.cli.arguments import Model, Overwrite, Weights, default_folder, names, numbers, refuse_to_replace, result_file
from unsc.cli.output import note, written

if TYPE_CHECKING:
    from torch import nn
    from torch.utils.data import Dataset

_DIGITS = "digits"
_DATA = "digits, which is the default, or package.module:function that gives (train, test)."


def command(
    model: Model,
    forgotten: Annotated[str, typer.Option(help="The classes it should have forgotten, separated by commas.")],
    weights: Weights = None,
    data: Annotated[str | None, typer.Option(help=_DATA)] = None,
    original: Annotated[Path | None, typer.Option(help="Weights before unlearning.")] = None,
    retrained: Annotated[Path | None, typer.Option(help="Weights of a network trained without the classes.")] = None,
    twin: Annotated[Path | None, typer.Option(help="Weights of a second such network, of another seed.")] = None,
    metrics: Annotated[str | None, typer.Option(help="Names separated by commas; all possible by default.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of what is drawn at random.")] = 0,
    network: Annotated[str | None, typer.Option(help="Deprecated: --model is the weights then.", hidden=True)] = None,
    out: Annotated[Path | None, typer.Option(help="File or folder; runs/audit-DATA/WEIGHTS.json by default.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Measure how well a model has forgotten classes, whatever made it forget."""
    from unsc.cli.tables import audit_table, skipped_lines
    from unsc.compare.scenarios import load_data
    from unsc.loading.models import load_model
    from unsc.storage.files import write_json

    if network is not None:
        note(f"--network is deprecated and will be removed; write --model {network} --weights {model}")
        model, weights = network, Path(model)
    path = result_file(out or default_folder("audit", data or _DIGITS), f"{(weights or Path(model)).stem}.json")
    if not overwrite:
        refuse_to_replace(path)
    train, test = load_data(data or _DIGITS)
    others = {"original": original, "retrained": retrained, "twin": twin}
    models = {name: file and load_model(model, file).model for name, file in others.items()}
    classes = numbers(forgotten, "--forgotten")
    judged = load_model(model, weights).model
    if data is None:
        _check_takes_digits(judged, train)
    result = unsc.audit(
        judged,
        train,
        test,
        classes=classes,
        original=models["original"],
        retrained=models["retrained"],
        twin=models["twin"],
        names=names(metrics),
        seed=seed,
    )
    write_json(path, {"model": (weights or Path(model)).name, "forgotten": classes, **result.to_dict()})
    console = Console()
    console.print(audit_table(result))
    console.print(result.bottom_line, soft_wrap=True, markup=False, highlight=False)
    for line in skipped_lines(result.model):
        console.print(line, soft_wrap=True, markup=False)
    written(path)


def _check_takes_digits(model: nn.Module, train: Dataset) -> None:
    """Refuse a model that does not take the digits, which nobody asked for by name."""
    from unsc.datasets import as_source, read
    from unsc.models import said_of_few, working_copy

    few = read(as_source(train, model), range(4))
    said_of_few(working_copy(model), few, "the digits, which are the data since no --data was given")
