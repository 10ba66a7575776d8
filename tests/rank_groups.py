"""Groups of processes for tests: each does one task after another, and what came of it is known for every rank.

A group is started once, since starting takes longer than all tasks together. Processes import this module.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

LIMIT = 240.0
"""Seconds after which a group is taken to hang: many times what it needs on a busy machine."""
Task = Callable[[Path], Any]
Results = dict[str, list[Any]]
"""What every rank made of each task, by the task's name."""


@dataclass(frozen=True)
class Failure:
    """An error that a task ended with, on one rank."""

    kind: str
    message: str


KILLED = Failure("killed", "")


class Hangs(Exception):
    """A group did not come to its end."""


def run_ranks(tasks: Sequence[Task], count: int, folder: Path) -> Results:
    """What a gloo group of `count` processes makes of tasks."""
    context = get_context("spawn")
    ranks = [context.Process(target=_rank, args=(tasks, r, count, folder), daemon=True) for r in range(count)]
    for process in ranks:
        process.start()
    until = time.monotonic() + LIMIT
    for process in ranks:
        process.join(max(0.1, until - time.monotonic()))
    hanging = [r for r, process in enumerate(ranks) if process.is_alive()]
    for r in hanging:
        ranks[r].kill()
        ranks[r].join()
    if hanging:
        raise Hangs(f"ranks {hanging} of {count} are still at work after {LIMIT} s")
    found = [_read(folder / f"{r}") for r in range(count)]
    return {task.__name__: [own.get(task.__name__, KILLED) for own in found] for task in tasks}


def of_task(results: Results, task: Task) -> list[Any]:
    """What each rank made of a task; tasks that are not for this number of ranks are skipped."""
    if task.__name__ not in results:
        pytest.skip("this is tested on two ranks")
    return results[task.__name__]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Task], Any]:
    """What this process makes of a task, worked out once."""
    done: dict[str, Any] = {}

    def of(task: Task) -> Any:
        if task.__name__ not in done:
            done[task.__name__] = task(tmp_path_factory.getbasetemp())
        return done[task.__name__]

    return of


def _read(path: Path) -> dict[str, Any]:
    """What a rank wrote, which is nothing if it was killed."""
    return pickle.loads(path.read_bytes()) if path.exists() else {}


def _rank(tasks: Sequence[Task], rank: int, count: int, folder: Path) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group(
        "gloo", init_method=f"file://{folder / 'meet'}", rank=rank, world_size=count, timeout=timedelta(seconds=120)
    )
    done: dict[str, Any] = {}
    for task in tasks:
        try:
            done[task.__name__] = task(folder)
        except Exception as e:
            done[task.__name__] = Failure(type(e).__name__, str(e))
    (folder / f"{rank}").write_bytes(pickle.dumps(done))
    dist.destroy_process_group()
