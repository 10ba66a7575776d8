"""What work costs: seconds and memory."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Cost:
    """`seconds` of wall-clock time, and the most memory in MiB that was in use beyond what was there before."""

    seconds: float
    peak_mib: float | None
    """None where the system cannot tell."""


@contextmanager
def metered() -> Iterator[Callable[[], Cost]]:
    """Measure a block: the function it yields gives the cost, once the block is done."""
    before = _start()
    began = time.perf_counter()
    done: list[Cost] = []
    try:
        yield lambda: done[0]
    finally:
        done.append(Cost(time.perf_counter() - began, _peak(before)))


def _start() -> float | None:
    """Begin to record peaks anew; the memory in use now, in MiB."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated() / 2**20
    try:
        ctypes.CDLL(None).malloc_trim(0)  # memory that is free but still held would hide what is needed anew
    except (OSError, AttributeError, TypeError):
        pass  # not glibc
    try:
        _RESET.write_text("5")  # Linux: the high-water mark starts again
        return _field("VmRSS")
    except (OSError, StopIteration):
        return None


def _peak(before: float | None) -> float | None:
    if before is None:
        return None
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated() / 2**20 - before
    return max(0.0, _field("VmHWM") - before)


def _field(name: str) -> float:
    lines = _STATUS.read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024
