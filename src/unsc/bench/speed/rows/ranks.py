"""A class request shared out over processes, against the same in one: the time on the clock, one thread each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing.spawn import spawn
from torch.utils.data import TensorDataset

from unsc.bench.speed.place import Place
from unsc.bench.speed.row import ROWS, Line, Row
from unsc.bench.speed.stages import carried_out

_RESULT = "result.json"


@dataclass(frozen=True)
class SharedOut(Row):
    """From the call of `forget` to its result; starting the processes and meeting is not counted."""

    processes: int = 2
    network: str = "resnet20"
    data: str = "cifar-10"
    requests: tuple[tuple[int, ...], ...] = ((3,), (0,), (8,))
    """The classes of each repetition."""

    def measure(self, place: Place) -> Iterator[Line]:
        yield self.line(place.network(self.network), place.data(self.data).train)

    def line(self, model: nn.Module, train: TensorDataset) -> Line:
        took = [[_took(model, train, classes, count) for count in (1, self.processes)] for classes in self.requests]
        return Line(
            f"a class request over {self.processes} processes, {self.network} on {self.data}",
            "the same in one process; each has one thread",
            tuple(shared["seconds"] / alone["seconds"] for alone, shared in took),
            noted={"requests": [list(classes) for classes in self.requests], "alone_and_shared": took},
        )


def _took(model: nn.Module, train: TensorDataset, classes: tuple[int, ...], processes: int) -> dict[str, Any]:
    """What a request takes over so many processes, and what it came to."""
    with TemporaryDirectory() as meeting:
        spawn(_rank, (processes, meeting, model, train.tensors, classes), nprocs=processes)
        return json.loads((Path(meeting) / _RESULT).read_text())


def _rank(
    rank: int, count: int, meeting: str, model: nn.Module, tensors: tuple[torch.Tensor, ...], classes: tuple[int, ...]
) -> None:
    """What each process does; the first one writes."""
    torch.set_num_threads(1)
    if count > 1:
        dist.init_process_group("gloo", init_method=f"file://{meeting}/group", rank=rank, world_size=count)
    metrics = carried_out(model, TensorDataset(*tensors), classes=classes, labels=tensors[1]).metrics
    if rank == 0:
        found = {"seconds": metrics.seconds, "steps": metrics.steps, "status": metrics.status}
        (Path(meeting) / _RESULT).write_text(json.dumps(found))
    if count > 1:
        dist.destroy_process_group()


ROWS.add(SharedOut("ranks", 8))
