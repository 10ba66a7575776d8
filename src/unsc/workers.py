"""Pieces of work done in several processes.

They talk by pipes alone. A pool of the standard library shares named semaphores as well, which stay behind when all of
its processes are killed at once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from threading import Thread
from typing import Any, Generic, TypeVar

from unsc.errors import InvalidRequest

P = TypeVar("P")
R = TypeVar("R")
_PATIENCE = 5.0
"""Seconds that a worker has to tidy up when it is stopped."""


class Workers(Generic[P, R]):
    """At most `count` processes that call `do` with one piece of work after another; used as a context.

    Processes start when there is work for them, and end with the context. `do` and the pieces must be picklable.
    """

    def __init__(self, do: Callable[[P], R], count: int, *, option: str = "--jobs") -> None:
        """`option` is what a user sets the number of processes by; a message names it."""
        self._do, self._count, self._option = do, count, option
        self._processes: list[Any] = []
        self._idle: list[Connection] = []

    def __enter__(self) -> Workers[P, R]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Let the processes end; those that are still at work, because of an error or Ctrl-C, are stopped."""
        for pipe in self._idle:
            pipe.close()
        if kind is not None:
            for process in self._processes:
                process.terminate()
        for process in self._processes:
            process.join(_PATIENCE)
            if process.is_alive():
                process.kill()
                process.join()

    def results(self, pieces: Sequence[P]) -> Iterator[tuple[P, R]]:
        """Each piece with what `do` made of it, in the order in which they are done."""
        waiting, busy = deque(pieces), dict[Connection, P]()
        try:
            while waiting or busy:
                while waiting and len(busy) < self._count:
                    pipe = self._idle.pop() if self._idle else self._start()
                    busy[pipe] = waiting.popleft()
                    pipe.send(busy[pipe])
                for pipe in wait(list(busy)):
                    if isinstance(pipe, Connection):
                        result = pipe.recv()
                        self._idle.append(pipe)
                        yield busy.pop(pipe), result
        except (EOFError, OSError) as e:
            raise InvalidRequest(
                "a process was killed, perhaps because memory ran out; what was written is kept: run the same "
                f"again, with a lower {self._option} if it was the memory"
            ) from e

    def _start(self) -> Connection:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(self._do, theirs), daemon=True)
        with _interrupts_held_back():
            process.start()
        self._processes.append(process)
        theirs.close()  # the worker alone has it, so that its end is the end of the pipe
        return ours


@contextmanager
def _interrupts_held_back() -> Generator[None, None, None]:
    """Ctrl-C goes to all processes of a terminal. Those that start now never hear of it: their parent stops them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # or it starts with the first process, and lets interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(do: Callable[[P], R], pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        _do_all(do, pipe)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends by itself: nothing raises while Python tidies up


def _do_all(do: Callable[[P], R], pipe: Connection) -> None:
    while True:
        try:
            piece = pipe.recv()
        except EOFError:
            return
        pipe.send(do(piece))


def _end(number: int, frame: object) -> None:
    sys.exit(1)  # an exception, so that half-written files are removed


def _end_with_parent() -> None:
    """A worker whose parent was killed would go on for nobody."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
