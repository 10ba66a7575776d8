"""The command line: options in, tables out. One file for each command, and no logic."""

from __future__ import annotations

import sys

from unsc.errors import MissingExtra, Refused, UnscError
from unsc.extras import need


def main() -> None:
    """Run `unsc`. A user's mistake ends in a message, not in a traceback."""
    try:
        for package in ("typer", "rich"):
            need(package, extra="cli")
    except MissingExtra as e:
        sys.exit(f"error: {e}")
    from unsc.cli.output import complain

    try:
        from unsc.cli.commands import app

        app()
    except UnscError as e:
        complain(str(e))
        sys.exit(3 if isinstance(e, Refused) else 2)
    except OSError as e:  # a full disk, a folder that may not be written to
        complain(f"{e.strerror}: {e.filename}; choose another place" if e.filename else str(e))
        sys.exit(2)
    except KeyboardInterrupt:  # before a command has begun
        sys.exit(130)
