"""What a step lowers on forgotten samples: the distance from their targets, and perhaps a pull inside the network.

Samples that are learned from are soon at their targets, where the distance has no slope left and steps grow small,
while some that are held out are still known. So forgotten outputs are counted as higher than they are: learning then
goes on until they are that much lower than the samples themselves would need. The higher, the fewer steps, and the more
retained predictions move: a little at first, and more with each pass that was not enough.

What is learned at the output alone leaves a forgotten class together in the features. The pull, at every layer of the
deeper half, moves its samples to where the retained samples are that are most like them, as the original network sees
both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch, join
from unsc.features import inputs_of_layers, pooled
from unsc.layers import needed_kind
from unsc.logits import logits_of
from unsc.task import Task

ForgetLoss: TypeAlias = Callable[[nn.Module, Batch, Tensor], Tensor]
"""From a network, a batch on its device and target distributions (n, classes): nats."""

_LEAST_MASS = 1e-4
"""Smaller masses at which a run may end raise outputs no further."""
_RISE = 0.25
"""Share of the whole that outputs are raised by in the first pass, and by which that grows from pass to pass."""
_NEAREST = 3
"""Retained samples whose mean features a forgotten sample is moved to."""
_BANK, _AT_ONCE = 512, 64
"""Retained samples to look among, and how many are read at once."""


def divergence(model: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
    """Mean KL of the predictions from `targets` (n, classes), in nats."""
    return _divergence(logits_of(model, batch), targets)


@dataclass(frozen=True)
class Beyond:
    """The divergence, with some outputs counted as higher than they are."""

    whole: Tensor
    """By how many nats at most, (classes,)."""
    share: float = _RISE
    """What share of that they are raised by."""

    @classmethod
    def enough(cls, task: Task) -> Beyond:
        """With the outputs of classes to forget, in the end, so much higher that a sample looks half known where a run
        would end. That is by the log-odds of the mass that its goal allows.
        """
        mass = min(max(task.aims.goal.enough, _LEAST_MASS), 0.5)
        outputs = (~task.request.kept).to(task.aims.check)
        return cls((math.log(1 - mass) - math.log(mass)) * outputs)

    def in_pass(self, number: int) -> Beyond:
        """As it is in a pass over the samples, counted from 0."""
        return replace(self, share=min(1.0, _RISE * (number + 1)))

    def __call__(self, model: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        return self.from_logits(logits_of(model, batch), targets)

    def from_logits(self, logits: Tensor, targets: Tensor) -> Tensor:
        """From logits and target distributions, both (n, classes)."""
        return _divergence(logits + self.share * self.whole, targets)


@dataclass(frozen=True)
class Pulled:
    """What is learned at the output, and `weight` nats for each variance between hidden features and their aims."""

    learned: Beyond
    original: nn.Module
    bank: dict[str, Tensor]
    """Features of retained samples in the original network, by path of a layer, (samples, values)."""
    weight: float

    @classmethod
    def to_nearest(cls, task: Task, learned: Beyond, weight: float) -> Pulled:
        """To the features of some retained samples of a task, at the deeper half of its layers."""
        few = list(task.samples.retain_fit.draw(_BANK, _AT_ONCE, torch.Generator().manual_seed(task.seed)))
        retained = join(few or task.samples.retain_check).for_model(task.original)
        with torch.no_grad():
            _, seen = _features(task.original, retained)
        deeper = list(seen)[len(seen) // 2 :]
        return cls(learned, task.original, {path: seen[path] for path in deeper}, weight)

    def in_pass(self, number: int) -> Pulled:
        """As it is in a pass over the samples, counted from 0."""
        return replace(self, learned=self.learned.in_pass(number))

    def __call__(self, model: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        logits, seen = _features(model, batch)
        aims = self.aims(batch)
        apart = [
            (seen[path] - aim).square().mean() / self.bank[path].var(dim=0).mean().clamp(min=1e-8)
            for path, aim in aims.items()
        ]
        return self.learned.from_logits(logits, targets) + self.weight * torch.stack(apart).mean()

    @torch.no_grad()
    def aims(self, batch: Batch) -> dict[str, Tensor]:
        """For each layer, the mean features of the retained samples that are nearest to each sample, (n, values).

        Nearest is by what the original network's last layer is given.
        """
        _, seen = _features(self.original, batch)
        last = list(self.bank)[-1]
        count = min(_NEAREST, len(self.bank[last]))
        nearest = torch.cdist(seen[last], self.bank[last]).topk(count, largest=False).indices
        return {path: x[nearest].mean(dim=1) for path, x in self.bank.items()}


def _divergence(logits: Tensor, targets: Tensor) -> Tensor:
    return F.kl_div(logits.log_softmax(dim=1), targets, reduction="batchmean")


def _features(model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """The logits for a batch, and the input of each layer by path, (n, values), in the order of their run."""
    with inputs_of_layers(model) as seen:
        logits = logits_of(model, batch)
    found = {}
    for path, x in seen.items():
        if x.is_floating_point() and x.dim() >= 2 and len(x) == len(batch):
            module = model.get_submodule(path)
            found[path] = pooled(x, channels=needed_kind(module).channels(module))
    return logits, found
