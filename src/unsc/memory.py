"""When memory runs out, go on with smaller pieces of the same work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from unsc.errors import OutOfMemory

T = TypeVar("T")

_SAID = ("out of memory", "not enough memory", "can't allocate memory")
"""What errors of torch say: on a GPU it is a RuntimeError of its own, on a CPU a plain one."""


def ran_out(error: BaseException) -> bool:
    """Whether an error says that memory ran out."""
    if isinstance(error, OutOfMemory):
        return False  # it was tried with less already
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in _SAID)
    )


def in_pieces(count: int, size: int, work: Callable[[int, int], T]) -> Iterator[T]:
    """What `work(start, stop)` gives for ranges that cover 0 to `count`, of at most `size` each.

    Where memory runs out, half as many are tried from there on, down to one. `work` must leave no trace when it fails.
    """
    start = 0
    while start < count:
        stop = min(start + size, count)
        try:
            done = work(start, stop)
        except (RuntimeError, MemoryError) as e:
            if not ran_out(e):
                raise
            if stop - start == 1:
                raise out_of_memory(e) from e
            size = (stop - start) // 2
            continue  # not in here: the error holds on to what was allocated
        yield done
        start = stop


def out_of_memory(error: BaseException) -> OutOfMemory:
    """The error for work that cannot be made any smaller."""
    said = str(error).partition("\n")[0]
    return OutOfMemory(
        f"memory ran out with a single sample or row at a time ({said:.200}); free some, edit fewer layers "
        "(parameters=...), or use a machine with more"
    )
