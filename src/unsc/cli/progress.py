"""Progress as a bar on the terminal."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from unsc.progress import Advance


@contextmanager
def bar(description: str, total: int) -> Generator[Advance, None, None]:
    """A bar on standard error, which disappears when the work is done. It is an `unsc.progress.Progress`."""
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}")
    console = Console(stderr=True)
    hidden = not console.is_terminal  # in a log file a bar is only noise
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=hidden) as shown:
        task = shown.add_task(description, total=total)
        yield lambda: shown.advance(task)
