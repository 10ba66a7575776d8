"""Our method against Fisher forgetting, the fastest one of the paper's table 1 that forgets and keeps as much."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn
from torch.utils.data import Subset, TensorDataset

from unsc.bench.speed.clock import threads
from unsc.bench.speed.place import Place
from unsc.bench.speed.row import ROWS, Goal, Line, Row
from unsc.methods import Problem, apply
from unsc.request import Request


@dataclass(frozen=True)
class AgainstFisher(Row):
    """Processor seconds of both with one thread, on as many samples as table 1 gives methods."""

    forget: int = 6
    forget_samples: int = 1000
    retain_samples: int = 2000
    repeats: int = 3

    def measure(self, place: Place) -> Iterator[Line]:
        yield self.line(place.network("alexnet"), place.data("fashion-mnist").train)

    def line(self, model: nn.Module, train: TensorDataset) -> Line:
        labels = train.tensors[1]
        gone = labels == self.forget
        parts = [
            Subset(train, part.nonzero().flatten()[:most].tolist())
            for part, most in ((gone, self.forget_samples), (~gone, self.retain_samples))
        ]
        request = Request.for_classes([self.forget], int(labels.max()) + 1)
        spent = {"unsc": [], "fisher": []}
        with threads(1):
            for seed in range(self.repeats):
                for method, worked in spent.items():
                    done = apply(method, Problem(model, request, forget=parts[0], retain=parts[1], seed=seed))
                    worked.append(done.cost.cpu_seconds)
        return Line(
            "processor seconds of unsc, AlexNet on fashion-mnist",
            "those of fisher",
            tuple(a / b for a, b in zip(*spent.values(), strict=True)),
            goal=Goal("at most", 1.0),
            noted={"cpu_seconds": spent},
        )


ROWS.add(AgainstFisher("fisher", 5))
