"""`unsc bench`: the paper's tables and figures, one command each."""

from __future__ import annotations

import typer

from unsc.cli.bench import fetch, figures, mia, networks, records, render, sequences, speed, steps, tables

app = typer.Typer(no_args_is_help=True, help="Regenerate the paper's tables and figures on its data sets.")
for name, about in tables.TABLES.items():
    app.command(name, help=about)(tables.command(name))
OTHERS = {
    "steps": steps,
    "records": records,
    "sequences": sequences,
    "speed": speed,
    "figures": figures,
    "mia": mia,
    "networks": networks,
    "fetch": fetch,
    "render": render,
}
for name, module in OTHERS.items():
    app.command(name)(module.command)
