"""Pieces of work for other processes, in a module that these can import."""

from __future__ import annotations

import atexit
import os
import signal
import time
from pathlib import Path


def squared(x: int) -> tuple[int, int]:
    return x * x, os.getpid()


def lost(x: int) -> int:
    os._exit(9)


def slow(path: Path) -> None:
    try:
        path.touch()
        time.sleep(60)
    finally:
        path.unlink()


def stopped_at_exit(_: int) -> None:
    """A parent may stop a process that has already begun to end."""
    atexit.register(os.kill, os.getpid(), signal.SIGTERM)


def semaphores(_: int) -> list[str]:
    """Named semaphores are files that a process has mapped into its memory."""
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if "/sem." in line]


def masked(_: int) -> set[int]:
    """The signals that a process has never heard, from its first instruction on."""
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, []))


def fill(mib: int) -> dict[str, int]:
    """Take so much memory for a moment."""
    return {"filled": len(b"\1" * (mib << 20)) >> 20}
