"""Processes that `torchrun` started: they meet for the time of a command."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

import torch.distributed as dist

from unsc import peers
from unsc.errors import InvalidRequest


def launched_processes() -> int:
    """How many processes `torchrun` started, this one among them; 1 if it did not start this."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1


def refuse_ranks(why: str) -> None:
    """Refuse to go on in one of several processes, each of which would do the same."""
    if (processes := launched_processes()) > 1:
        raise InvalidRequest(f"torchrun started {processes} processes, but {why}; start it without torchrun")


@contextmanager
def launched() -> Generator[bool, None, None]:
    """Share the work inside with all processes that `torchrun` started, and say whether this one speaks and writes."""
    if launched_processes() == 1:
        yield True
        return
    dist.init_process_group("gloo")  # commands work on the CPU
    try:
        with peers.joined():
            yield peers.rank() == 0
    finally:
        dist.destroy_process_group()
