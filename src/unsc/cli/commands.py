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
    prepare,
    report,
    rollback,
    show,
    tune,
    verify,
    version,
)
from unsc.cli.output import stopped
from unsc.launch import refuse_ranks

RESUMES = ("tune", "compare", "bench")
"""The commands that keep what they have done, and resume from there."""


class Commands(TyperGroup):
    """Ctrl-C ends a command with a line that says what is left of it, and with exit code 130."""

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:
        if args[0] != "forget":
            refuse_ranks("of all commands only forget shares its work with others")
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
    "prepare": prepare,
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
