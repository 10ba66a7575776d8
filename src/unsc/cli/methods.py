"""`unsc methods`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console


def command(
    name: Annotated[str | None, typer.Argument(help="A method to describe; without it, all are listed.")] = None,
) -> None:
    """List the methods, or describe one of them in full."""
    from unsc.cli.tables import about_method, methods_table

    Console().print(methods_table() if name is None else about_method(name))
