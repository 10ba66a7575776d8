"""The command line: options in, tables out. One file for each command, and no logic."""

from __future__ import annotations

import sys

from unsc.errors import MissingExtra, UnscError
from unsc.extras import need


def main() -> None:
    """Run `unsc`. A user's mistake ends in a message, not in a traceback."""
    try:
        for package in ("typer", "rich"):
            need(package, extra="cli")
    except MissingExtra as e:
        sys.exit(f"error: {e}")
    from unsc.cli.commands import app
    from unsc.cli.output import complain

    try:
        app()
    except UnscError as e:
        complain(str(e))
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
