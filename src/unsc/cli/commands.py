"""`unsc` and its commands, in the order in which `unsc --help` lists them."""

from __future__ import annotations

import typer

from unsc.cli import audit, bench, compare, demo, methods, metrics, tune, version

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Make a trained classifier forget, and measure how well it did.",
)
app.callback(invoke_without_command=True)(version.command)
for name, module in {
    "demo": demo,
    "methods": methods,
    "metrics": metrics,
    "tune": tune,
    "compare": compare,
    "audit": audit,
}.items():
    app.command(name)(module.command)
app.add_typer(bench.app, name="bench")
