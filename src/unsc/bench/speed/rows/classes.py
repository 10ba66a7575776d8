"""Preparation for ten, a hundred and a thousand classes of the same network and image size, against each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from unsc.bench.networks import ResNet20
from unsc.bench.speed.apart import Apart, apart
from unsc.bench.speed.images import Synthetic
from unsc.bench.speed.place import Place
from unsc.bench.speed.row import ROWS, Goal, Line, Row
from unsc.bench.speed.stages import stages_of


@dataclass(frozen=True)
class Preparation(Row):
    """All that is done before the first step, in a process of its own, with as many samples in all."""

    classes: tuple[int, ...] = (10, 100, 1000)
    samples: int = 40_000
    forgotten: int = 256
    """Samples of the forgotten class, whatever the number of classes."""
    width: float = 1.0
    side: int = 32
    repeats: int = 3

    def measure(self, place: Place) -> Iterator[Line]:
        found: dict[int, list[Apart]] = {k: [] for k in self.classes}
        for _ in range(self.repeats):
            for k, runs in found.items():
                shape = {"samples": self.samples, "forgotten": self.forgotten, "width": self.width, "side": self.side}
                runs.append(apart(f"{__name__}:prepare", classes=k, **shape))
        fewest, *others = self.classes
        for k in others:
            pairs = list(zip(found[k], found[fewest], strict=True))
            seconds = [(many.given["seconds"], few.given["seconds"]) for many, few in pairs]
            peaks = [(many.peak_mib, few.peak_mib) for many, few in pairs]
            for what, both in {"time": seconds, "peak memory": peaks}.items():
                yield Line(
                    f"{what} of preparation, {k:,} classes",
                    f"{fewest} classes, ResNet-20 of random weights, {self.side}x{self.side} synthetic images",
                    tuple(a / b for a, b in both),
                    goal=Goal("at most", 1.3),
                    noted={"pairs": both, "unit": "s" if what == "time" else "MiB"},
                )


def prepare(classes: int, samples: int, forgotten: int, width: float, side: int) -> dict[str, Any]:
    """Prepare a request for one of so many classes."""
    torch.manual_seed(0)
    data = Synthetic(samples, classes, side)
    # The forgotten class is as large for every number of classes: its other samples are given to the next one.
    own = (data.targets == 0).nonzero().flatten()
    data.targets[own[forgotten:]] = 1
    if len(own) < forgotten:
        data.targets[torch.arange(samples - forgotten + len(own), samples)] = 0
    stages = stages_of(ResNet20(classes, width=width), data, classes=[0], labels=data.targets, most_steps=0)
    return {"seconds": stages.preparation}


ROWS.add(Preparation("classes", 3))
