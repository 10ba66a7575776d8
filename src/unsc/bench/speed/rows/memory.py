"""The peak of memory of a request, against plain fine-tuning at the same batch size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from unsc.bench.networks import ResNet20
from unsc.bench.speed.apart import apart
from unsc.bench.speed.images import Synthetic
from unsc.bench.speed.place import Place
from unsc.bench.speed.row import ROWS, Goal, Line, Row
from unsc.bench.speed.stages import carried_out


@dataclass(frozen=True)
class PeakMemory(Row):
    """Each in a process of its own, beyond what imports take, with images that are made when they are read."""

    sides: tuple[int, ...] = (32, 64)
    classes: int = 10
    samples: int = 50_000
    batch_size: int = 128
    width: float = 1.0
    repeats: int = 1
    max_passes: int = 1

    def measure(self, place: Place) -> Iterator[Line]:
        for side in self.sides:
            shape = {"side": side, "samples": self.samples, "classes": self.classes, "width": self.width}
            both: list[tuple[float, float]] = []
            for _ in range(self.repeats):
                peaks = [
                    apart(f"{__name__}:{work}", batch_size=self.batch_size, **shape, **more).peak_mib
                    for work, more in (("request", {"max_passes": self.max_passes}), ("fine_tune", {}))
                ]
                both.append((peaks[0], peaks[1]))
            own = self.samples // self.classes
            yield Line(
                f"peak memory of a request, {own:,} forgotten images of {side}x{side}, ResNet-20 of random weights",
                f"fine-tuning with batches of {self.batch_size}",
                tuple(a / b for a, b in both),
                goal=Goal("at most", 1.3),
                noted={"mib": both, "forgotten_mib": own * 3 * side**2 * 4 / 2**20},
            )


def _case(side: int, samples: int, classes: int, width: float) -> tuple[nn.Module, Synthetic]:
    torch.manual_seed(0)
    return ResNet20(classes, width=width), Synthetic(samples, classes, side)


def request(batch_size: int, max_passes: int, **shape: Any) -> dict[str, Any]:
    """A class request."""
    model, data = _case(**shape)
    result = carried_out(model, data, classes=[0], batch_size=batch_size, max_passes=max_passes)
    return {"seconds": result.metrics.seconds, "steps": result.metrics.steps}


def fine_tune(batch_size: int, **shape: Any) -> dict[str, Any]:
    """A few steps of training, with momentum."""
    model, data = _case(**shape)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step, (images, labels) in enumerate(DataLoader(data, batch_size)):
        if step == 4:
            break
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {}


ROWS.add(PeakMemory("memory", 8))
