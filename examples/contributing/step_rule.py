"""A step rule in one file: keep only the largest entries of every gradient, and leave all other weights alone.

A rule is a frozen dataclass. Its fields are its options, its class attributes the defaults that suit it. `prepare`
makes the guide from retained data, which here are the weights' own shapes and nothing else; `start` gives the step
that a run takes for every batch. Put the file into `src/unsc/steps/`, and `unsc.forget(..., step="sparse", share=0.1)`
finds it; from your own package pass the rule itself: `unsc.forget(..., step=SparseRule(share=0.1))`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.checks import is_number, require
from unsc.layers import parameters_of
from unsc.logits import logits_of
from unsc.progress import Progress
from unsc.request import Request
from unsc.steps import Step, StepRule
from unsc.targets import Targets
from unsc.task import Task


@dataclass(frozen=True)
class Names:
    """The guide: here only the names of the layers that may move."""

    names: tuple[str, ...]

    def layer_names(self) -> Collection[str]:
        return self.names

    def check(self, request: Request, labels: Tensor) -> None:
        """Nothing that could be wrong."""


@dataclass(frozen=True)
class SparseRule(StepRule[Names]):
    """SGD on the `share` of each weight's entries with the largest gradient."""

    name: ClassVar[str] = "sparse"
    guides: ClassVar[tuple[type, ...]] = (Names,)
    targets: ClassVar[Targets] = "soft"
    max_kl: ClassVar[float] = 1.0

    share: float = 0.1
    lr: float = 1e-3

    def __post_init__(self) -> None:
        require("share", self.share, "a share above 0 and at most 1", is_number(self.share) and 0 < self.share <= 1)

    def passes(self, steps_per_pass: int) -> int:
        return 10

    def prepare(self, task: Task, progress: Progress) -> Names:
        return Names(tuple(layer.name for layer in task.layers))

    def start(self, model: nn.Module, task: Task, guide: Names) -> SparseStep:
        return SparseStep(model, task, self)


class SparseStep(Step):
    """Moves the few entries that matter most for the batch at hand."""

    def __init__(self, model: nn.Module, task: Task, rule: SparseRule) -> None:
        self.model, self.rule = model, rule
        self.parameters = parameters_of(model, task.layers)

    def __call__(self, batch: Batch, targets: Tensor) -> None:
        loss = F.cross_entropy(logits_of(self.model, batch), targets)
        gradients = torch.autograd.grad(loss, list(self.parameters.values()))
        with torch.no_grad():
            for p, gradient in zip(self.parameters.values(), gradients, strict=True):
                count = max(1, round(self.rule.share * p.numel()))
                largest = gradient.abs().flatten().topk(count).indices
                p.view(-1)[largest] -= self.rule.lr * gradient.flatten()[largest]
