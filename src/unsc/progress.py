"""How code that runs for long reports its progress.

A `Progress` is called with a description and a total. It gives a context manager, which yields a function to call
once for every unit of work done. The library is `quiet` by default; the command line shows a bar.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

Advance: TypeAlias = Callable[[], None]
Progress: TypeAlias = Callable[[str, int], AbstractContextManager[Advance]]


@contextmanager
def quiet(description: str, total: int) -> Generator[Advance, None, None]:
    """Show nothing."""
    yield lambda: None
