"""`unsc bench figures`."""

from __future__ import annotations

from typing import Annotated

import typer

from unsc.cli.bench import render
from unsc.cli.bench.options import OUT, WORK, Folder, Out, Preset, Ready, Seed, Work, read_from
from unsc.cli.output import fail
from unsc.progress import bar


def command(
    data: Annotated[str, typer.Option(help="fashion-mnist, svhn, cifar-10, cifar-100, or toy.")] = "fashion-mnist",
    folder: Folder = None,
    preset: Preset = "cpu",
    seed: Seed = 0,
    networks: Ready = None,
    work: Work = WORK,
    out: Out = OUT,
) -> None:
    """Pseudo-labels, loss contour, latent space and accuracy by class; or the toy example, which needs no data."""
    from unsc.bench.figures.shared.make import measure_figures
    from unsc.bench.kept_networks import take_networks
    from unsc.bench.scenarios import full_name

    read_from(folder)
    if networks is not None:
        name = full_name(data, preset)
        take_networks(name, networks, work / "models" / name)
    failed = measure_figures(data, out, work=work, preset=preset, seed=seed, progress=bar)
    render.command(out)
    fail(failed)
