"""What work costs: time and memory."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
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
    cpu_seconds: float | None = None
    """Time that all threads of the process were at work; other work of the machine does not add to it."""

    @property
    def at_work(self) -> float:
        """Seconds that do not grow with other work beside it: the clock's, or the processor's if those are fewer."""
        return self.seconds if self.cpu_seconds is None else min(self.seconds, self.cpu_seconds)


@contextmanager
def metered() -> Generator[Callable[[], Cost], None, None]:
    """Measure a block: the function it yields gives the cost, once the block is done."""
    peak = _cuda_peak() if torch.cuda.is_available() and torch.cuda.is_initialized() else _process_peak()
    began, worked = time.perf_counter(), time.process_time()
    done: list[Cost] = []
    try:
        yield lambda: done[0]
    finally:
        done.append(Cost(time.perf_counter() - began, peak(), time.process_time() - worked))


def _cuda_peak() -> Callable[[], float]:
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    return lambda: (torch.cuda.max_memory_allocated() - before) / 2**20


def _process_peak() -> Callable[[], float | None]:
    """Linux: the process's high-water mark starts again, and is read at the end."""
    with suppress(OSError, AttributeError, TypeError):  # glibc: memory that is free but held would hide what is needed
        ctypes.CDLL(None).malloc_trim(0)
    try:
        _RESET.write_text("5")
    except OSError:
        return lambda: None
    before = _field("VmRSS")

    def peak() -> float | None:
        after = _field("VmHWM")
        return None if before is None or after is None else max(0.0, after - before)

    return peak


def _field(name: str) -> float | None:
    """A line of the process's status, in MiB."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:")), None)
