"""How a long computation reports progress.

A `Progress` is called with a description and a total. It gives a context manager, which yields a function to call once
for every unit that is done. The library is `quiet` unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeAlias, runtime_checkable

from unsc.checks import require
from unsc.extras import need

Advance: TypeAlias = Callable[[], None]
Progress: TypeAlias = Callable[[str, int], AbstractContextManager[Advance]]


@runtime_checkable
class Shows(Protocol):
    """What a progress may yield in the place of a plain function: it also shows what is measured on the way."""

    def __call__(self) -> None: ...

    def show(self, *, forget_acc: float, retained_kl: float) -> None:
        """Percent of the samples to forget that are still known, and the change of retained predictions in nats."""
        ...


@contextmanager
def quiet(description: str, total: int) -> Generator[Advance, None, None]:
    """Show nothing."""
    yield lambda: None


@contextmanager
def bar(description: str, total: int) -> Generator[Advance, None, None]:
    """A bar on standard error, which disappears when the work is done."""
    need("rich", extra="cli")
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}")
    console = Console(stderr=True)
    hidden = not console.is_terminal  # in a log file a bar is only noise
    with Bar(*columns, TimeRemainingColumn(), console=console, transient=True, disable=hidden) as shown:
        task = shown.add_task(description, total=total)
        yield lambda: shown.advance(task)


def as_progress(progress: Progress | bool) -> Progress:
    """What a caller asks for: True is a bar on the terminal, False nothing, anything else is taken as it is."""
    if isinstance(progress, bool):
        return bar if progress else quiet
    require("progress", progress, "True, False, or a function of a description and a total", callable(progress))
    return progress
