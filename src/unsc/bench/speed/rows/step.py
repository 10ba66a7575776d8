"""A step with its share of the checks, against a plain SGD step on the same batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.data import Subset, TensorDataset

from unsc.bench.speed.clock import sgd_seconds
from unsc.bench.speed.place import Place
from unsc.bench.speed.row import ROWS, Goal, Line, Row
from unsc.bench.speed.stages import stages_of
from unsc.datasets import read

_NEVER: dict[str, Any] = {"stop_mass": 0.0, "max_kl": 1e9}
"""So that a run goes on for as many steps as are timed."""


@dataclass(frozen=True)
class OneStep(Row):
    """Steps of the default batch size, timed within a run."""

    network: str = "resnet20"
    data: str = "cifar-10"
    forget: int = 3
    batch_size: int = 128
    per_class: int = 1024
    """Training samples of each class, and how many of them guides are made from: preparation is not timed here."""
    samples_per_class: int = 64
    most_steps: int = 17
    rules: tuple[str, ...] = ("budgeted", "paper")
    repeats: int = 3

    def measure(self, place: Place) -> Iterator[Line]:
        yield from self.lines(place.network(self.network), place.data(self.data).train)

    def lines(self, model: nn.Module, train: TensorDataset) -> Iterator[Line]:
        labels = train.tensors[1]
        chosen = torch.cat([(labels == k).nonzero().flatten()[: self.per_class] for k in labels.unique()])
        some = Subset(train, chosen.tolist())
        own = (labels == self.forget).nonzero().flatten()[: self.batch_size]
        batch = read(train, own.tolist())
        for rule in self.rules:
            pairs = [self._pair(rule, model, some, batch, seed) for seed in range(self.repeats)]
            yield Line(
                f"one {rule} step with its checks, {self.network}, batches of {self.batch_size}",
                "a plain SGD step on the same batch",
                tuple(a / b for a, b in pairs),
                goal=Goal("at most", 1.25),
                noted={"seconds": pairs},
            )

    def _pair(self, rule: str, model: nn.Module, some: Subset, batch: Any, seed: int) -> tuple[float, float]:
        plain = sgd_seconds(model, batch, repeats=4)
        options = {"step": rule, "batch_size": self.batch_size, "max_passes": 100, "seed": seed, **_NEVER}
        options["samples_per_class"] = self.samples_per_class
        stages = stages_of(model, some, classes=[self.forget], most_steps=self.most_steps, **options)
        return stages.seconds_per_step, plain


ROWS.add(OneStep("step-resnet20", 4))
ROWS.add(OneStep("step-alexnet", 4, network="alexnet", data="fashion-mnist", forget=6))
