"""The work of a comparison in the test's own process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence


class InThisProcess:
    """Does work at once: a process that starts takes longer than all of it."""

    def __init__(self, do: Callable, count: int) -> None:
        self.do = do

    def __enter__(self) -> InThisProcess:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def results(self, pieces: Sequence) -> Iterator[tuple]:
        return ((piece, self.do(piece)) for piece in pieces)
