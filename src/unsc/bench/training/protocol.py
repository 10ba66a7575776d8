"""How a network is trained: everything but the network, the data and the seed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from unsc.bench.training.augment import Augmentation
from unsc.errors import InvalidRequest

Schedule: TypeAlias = Literal["steps", "one-cycle"]
Precision: TypeAlias = Literal["float32", "bfloat16"]

_RISE = 0.3
"""The share of a one-cycle run in which the learning rate rises."""
_START = 1 / 25
"""What share of its peak the learning rate of a one-cycle run starts with."""


@dataclass(frozen=True)
class Protocol:
    """SGD on the cross entropy of shuffled batches."""

    epochs: int
    """The most epochs; `patience` may end the run earlier."""
    batch_size: int = 512
    lr: float = 0.1
    """The first learning rate of "steps", the highest one of "one-cycle"."""
    momentum: float = 0.9
    weight_decay: float = 5e-4
    schedule: Schedule = "steps"
    """"steps" multiplies the rate by `factor` at each of the `milestones`. "one-cycle" raises it linearly over 30 % of
    the run and lowers it to 0 along a cosine."""
    milestones: tuple[int, ...] = ()
    """Epochs, counted from 0, before which the rate falls."""
    factor: float = 0.2
    patience: int | None = None
    """Stop after this many epochs without a better validation accuracy, and return the best epoch's weights.
    None: train to the end, and return the last weights."""
    augmentation: Augmentation = "none"
    precision: Precision = "float32"
    """What the network computes in. "bfloat16" halves the time on processors with instructions for it: convolutions and
    linear layers round their inputs (autocast), while weights and their updates stay float32."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "lr", "factor"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise InvalidRequest(f"{name} is {getattr(self, name)}; give a number above 0")
        if self.batch_size < 2:
            raise InvalidRequest("batch_size is 1; give 2 or more, since batch norm has no statistics of one sample")
        if not 0 <= self.momentum < 1:
            raise InvalidRequest(f"momentum is {self.momentum}; give a number from 0 to below 1")
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise InvalidRequest(f"weight_decay is {self.weight_decay}; give 0 or more")
        if self.patience is not None and self.patience < 1:
            raise InvalidRequest(f"patience is {self.patience}; give 1 epoch or more, or None")
        for name, kinds in (("schedule", Schedule), ("augmentation", Augmentation), ("precision", Precision)):
            if getattr(self, name) not in get_args(kinds):
                raise InvalidRequest(f"{name} is {getattr(self, name)!r}; give one of {', '.join(get_args(kinds))}")

    def rate(self, step: int, steps_per_epoch: int) -> float:
        """The learning rate of `step`, counted from 0; it depends on nothing else, so a resumed run needs no state."""
        if self.schedule == "steps":
            epoch = step // steps_per_epoch
            return self.lr * self.factor ** sum(epoch >= milestone for milestone in self.milestones)
        share = step / (self.epochs * steps_per_epoch)
        if share < _RISE:
            return self.lr * (_START + (1 - _START) * share / _RISE)
        return self.lr * (1 + math.cos(math.pi * (share - _RISE) / (1 - _RISE))) / 2


PAPER = Protocol(epochs=200, milestones=(60, 120, 160), patience=30)
"""Chen et al., Machine Unlearning via Null Space Calibration (IJCAI 2024), Section 4 and Appendix A. Momentum and
augmentation are not stated there; 0.9 is customary."""
