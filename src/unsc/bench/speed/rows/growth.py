"""How preparation and a step grow with classes, samples, width, depth, image size and forgotten samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median

import torch
from torch import nn

from unsc.bench.speed.images import Synthetic
from unsc.bench.speed.place import Place
from unsc.bench.speed.row import ROWS, Goal, Line, Row
from unsc.bench.speed.stages import stages_of

QUANTITIES = ("preparation", "step")


@dataclass(frozen=True)
class Shape:
    """Of a request: one factor at a time is varied."""

    classes: int = 10
    samples: int = 20_000
    """Training samples in all."""
    width: int = 16
    """Channels of each convolution."""
    depth: int = 6
    """Convolutions."""
    side: int = 16
    """Of the images, in pixels."""
    forgotten: int = 512
    """Samples of the forgotten class."""


@dataclass(frozen=True)
class Growth(Row):
    """Each factor in turn, in steps of four or two; the others as in `base`."""

    base: Shape = field(default_factory=Shape)
    factors: dict[str, tuple[int, ...]] = field(
        default_factory=lambda: {
            "classes": (10, 40, 160, 640),
            "samples": (5_000, 20_000, 80_000, 320_000),
            "width": (8, 16, 32, 64),
            "depth": (3, 6, 12, 24),
            "side": (8, 16, 32, 64),
            "forgotten": (128, 512, 2048, 8192),
        }
    )
    flat: tuple[tuple[str, str], ...] = (
        ("classes", "preparation"),
        ("classes", "step"),
        ("samples", "preparation"),
        ("samples", "step"),
        ("forgotten", "step"),
    )
    """What should not grow: factor and quantity."""
    flat_below: float = 0.1
    """An exponent that counts as flat: ten times as much for 1.26 times the time."""
    batch_size: int = 32
    most_steps: int = 9
    repeats: int = 2

    def measure(self, place: Place) -> Iterator[Line]:
        for factor, values in self.factors.items():
            times: list[list[list[float]]] = [[] for _ in values]
            for seed in range(self.repeats):
                for i, value in enumerate(values):
                    times[i].append(self.times(replace(self.base, **{factor: value}), seed))
            for q, quantity in enumerate(QUANTITIES):
                of_run = [exponent(values, [own[r][q] for own in times]) for r in range(self.repeats)]
                goal = Goal("at most", self.flat_below) if (factor, quantity) in self.flat else None
                noted = {
                    "factor": factor,
                    "quantity": quantity,
                    "values": list(values),
                    "seconds": [median(run[q] for run in own) for own in times],
                    "base": asdict(self.base),
                }
                yield Line(f"{quantity} by {factor}", "", tuple(of_run), unit="exponent", goal=goal, noted=noted)

    def times(self, shape: Shape, seed: int) -> list[float]:
        """Seconds of preparation and of a step."""
        torch.manual_seed(seed)
        data = Synthetic(shape.samples, shape.classes, shape.side)
        # Samples of the forgotten class are as many as the shape says, whatever the rest.
        rest = torch.arange(shape.samples) >= shape.forgotten
        data.targets = torch.where(rest, 1 + torch.arange(shape.samples) % (shape.classes - 1), 0)
        options = {"classes": [0], "labels": data.targets, "batch_size": self.batch_size, "max_passes": 1000}
        stages = stages_of(
            network(shape), data, most_steps=self.most_steps, seed=seed, stop_mass=0.0, max_kl=1e9, **options
        )
        return [stages.preparation, stages.seconds_per_step]


def network(shape: Shape) -> nn.Module:
    """Convolutions of one width at one resolution, and a linear layer on their mean."""
    layers: list[nn.Module] = []
    channels = 3
    for _ in range(shape.depth):
        layers += [nn.Conv2d(channels, shape.width, 3, padding=1, bias=False), nn.BatchNorm2d(shape.width), nn.ReLU()]
        channels = shape.width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, shape.classes))


def exponent(values: Sequence[float], times: Sequence[float]) -> float:
    """The slope of `log times` over `log values`, by least squares."""
    x, y = ([math.log(v) for v in series] for series in (values, times))
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return above / sum((a - mean_x) ** 2 for a in x)


ROWS.add(Growth("growth", 10))
