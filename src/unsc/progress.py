"""How long work tells that it goes on.

A `Progress` is called with a description and a total, and gives a context manager that yields a
function to call once for every unit done. The library is `quiet` unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import TypeAlias

from unsc.extras import need

Advance: TypeAlias = Callable[[], None]
Progress: TypeAlias = Callable[[str, int], AbstractContextManager[Advance]]


@contextmanager
def quiet(description: str, total: int) -> Iterator[Advance]:
    """Show nothing."""
    yield lambda: None


def as_progress(progress: Progress | bool) -> Progress:
    """What a caller asks for: True is a bar on the terminal, False nothing, anything else is taken as it is."""
    if not isinstance(progress, bool):
        return progress
    if not progress:
        return quiet
    need("rich", extra="cli")
    try:  # where the command line has its bar
        return import_module("unsc.cli.progress").bar
    except ModuleNotFoundError:
        return bar


@contextmanager
def bar(description: str, total: int) -> Iterator[Advance]:
    """A bar on the terminal, on standard error, gone when the work is done."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}")
    console = Console(stderr=True)
    hidden = not console.is_terminal  # in a log file a bar is only noise
    with Bar(*columns, TimeRemainingColumn(), console=console, transient=True, disable=hidden) as shown:
        task = shown.add_task(description, total=total)
        yield lambda: shown.advance(task)
