"""`unsc` and its commands, in the order in which `unsc --help` lists them."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from unsc.cli import (
    audit,
    bench,
    compare,
    demo,
    forget,
    log,
    methods,
    metrics,
    report,
    rollback,
    show,
    tune,
    verify,
    version,
)
from unsc.cli.output import stopped
from unsc.errors import InvalidRequest
from unsc.launch import launched_processes

RESUMES = ("tune", "compare", "bench")
"""The commands that keep what they have done, and resume from there."""


class Commands(TyperGroup):
    """Ctrl-C ends a command with a line that says what is left of it, and with exit code 130."""

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:
        if (processes := launched_processes()) > 1 and args[0] != "forget":
            raise InvalidRequest(
                f"torchrun started {processes} processes, and of all commands only forget shares its work with others; "
                f"start {args[0]} without torchrun"
            )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: typer.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            stopped(resumes=ctx.invoked_subcommand in RESUMES)
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    help="Make a trained classifier forget, and measure how well it did.",
)
app.callback(invoke_without_command=True)(version.command)
for name, module in {
    "demo": demo,
    "forget": forget,
    "methods": methods,
    "metrics": metrics,
    "tune": tune,
    "compare": compare,
    "audit": audit,
    "report": report,
    "verify": verify,
    "log": log,
    "show": show,
    "rollback": rollback,
}.items():
    app.command(name)(module.command)
app.add_typer(bench.app, name="bench")
