"""A whole class request with defaults, against an epoch of training the same network on the same data and cores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from unsc.batches import as_batch
from unsc.bench.datasets import Split
from unsc.bench.speed.clock import epoch_seconds
from unsc.bench.speed.place import Place
from unsc.bench.speed.row import ROWS, Goal, Line, Noted, Row
from unsc.bench.speed.stages import Stages, carried_out
from unsc.bench.training.protocol import Protocol
from unsc.logits import all_logits
from unsc.request import of_classes


@dataclass(frozen=True)
class WholeRequest(Row):
    """Labels, moments, curvature, loop, checks and drift: everything between the call and its result."""

    network: str = "resnet20"
    data: str = "cifar-10"
    requests: tuple[tuple[int, ...], ...] = ((3,), (0,), (8,))
    """The classes of each repetition."""
    most: float = 0.3
    protocol: Protocol = field(default_factory=lambda: Protocol(1, 128, augmentation="crop-flip"))
    """How an epoch is trained."""
    epoch_batches: int = 16

    def measure(self, place: Place) -> Iterator[Line]:
        model, split = place.network(self.network), place.data(self.data)
        yield self.line(model, split)

    def line(self, model: nn.Module, split: Split) -> Line:
        labels = split.train.tensors[1]
        logits = _test_logits(model, split)
        values, noted = [], []
        for seed, classes in enumerate(self.requests):
            epoch = epoch_seconds(model, split.train, self.protocol, batches=self.epoch_batches)
            stages = Stages()
            result = carried_out(model, split.train, classes=classes, labels=labels, seed=seed, progress=stages)
            took = result.metrics.seconds
            values.append(took / epoch)
            noted.append(
                {
                    "classes": list(classes),
                    "seconds": took,
                    "preparation": stages.preparation,
                    "loop": stages.loop,
                    "steps": result.metrics.steps,
                    "epoch": epoch,
                    "status": result.metrics.status,
                    "retained_kl": result.metrics.retained_kl,
                }
                | _accuracy(logits, _test_logits(result.model, split), split.test.tensors[1], classes)
            )
        many = len(self.requests[0])
        what = f"{'a class' if many == 1 else f'{many} classes'} of {len(split.classes)}, {self.network} on {self.data}"
        against = f"one training epoch, measured on {self.epoch_batches} batches and scaled"
        return Line(what, against, tuple(values), goal=Goal("at most", self.most), noted={"requests": noted})


@torch.no_grad()
def _test_logits(model: nn.Module, split: Split) -> Tensor:
    return all_logits(model.eval(), as_batch(split.test[:]))


def _accuracy(before: Tensor, after: Tensor, labels: Tensor, classes: tuple[int, ...]) -> Noted:
    """Test accuracy in percent, retained and forgotten, of the original, of a logit mask and of the result."""
    gone = of_classes(labels, classes)
    masked = before.clone()
    masked[:, list(classes)] = -torch.inf
    found: Noted = {}
    for name, logits in {"original": before, "logit_mask": masked, "unsc": after}.items():
        right = (logits.argmax(dim=1) == labels).double() * 100
        found[name] = {"retain_test_acc": right[~gone].mean().item(), "forget_test_acc": right[gone].mean().item()}
    return found


_TENS = (4, 5, 15, 46, 52, 54, 59, 61, 78, 94), (7, 20, 23, 24, 29, 30, 31, 35, 65, 98)
"""Two of the sets of classes that the experiments forget."""

ROWS.add(WholeRequest("request-resnet20", 1))
ROWS.add(
    WholeRequest(
        "request-alexnet",
        1,
        network="alexnet",
        data="fashion-mnist",
        requests=((6,), (1,), (3,)),
        protocol=Protocol(1, 128),
        epoch_batches=32,
    )
)
ROWS.add(WholeRequest("request-densenet", 1, network="densenet"))
ROWS.add(WholeRequest("request-100", 2, network="resnet18-100", data="cifar-100", requests=_TENS, most=0.4))
