"""What several commands print in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import typer
from rich.console import Console


def written(path: Path, *files: str) -> None:
    """Say where the results are: a file, or a folder with these `files`."""
    said = f"Written to {path}: {', '.join(files)}" if files else f"Written to {path}"
    Console().print(said, soft_wrap=True, markup=False)  # names may hold brackets


def complain(message: str) -> None:
    """Print an error, on standard error."""
    Console(stderr=True).print(f"error: {message}", style="red", markup=False, highlight=False, soft_wrap=True)


def note(message: str) -> None:
    """Print a remark, on standard error."""
    Console(stderr=True).print(f"note: {message}", markup=False, highlight=False, soft_wrap=True)


def stopped(*, resumes: bool) -> None:
    """Say, on standard error, what a command that was stopped by Ctrl-C leaves."""
    left = "the same command resumes" if resumes else "nothing was written"
    Console(stderr=True).print(f"stopped; {left}", highlight=False)


def fail(reasons: Mapping[str, str]) -> None:
    """End with exit code 1 if anything failed, and print what and why; do nothing otherwise."""
    for what, why in reasons.items():
        complain(f"{what}: {why}")
    if reasons:
        raise typer.Exit(1)
