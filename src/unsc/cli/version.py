"""`unsc --version`."""

from __future__ import annotations

from typing import Annotated

import typer

from unsc import __version__


def command(show: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if show:
        print(__version__)
        raise typer.Exit
