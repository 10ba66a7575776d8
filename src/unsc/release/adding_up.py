"""How the layers of a step add up, measured while retained samples are at hand, for requests that have none."""

from __future__ import annotations

import copy

import torch
from torch import nn

from unsc.batches import Batch
from unsc.layers import Layer
from unsc.release.statistics import Statistics
from unsc.request import Request
from unsc.steps.budgeted import BudgetedRule, first_gradients
from unsc.steps.together import Together
from unsc.targets import find_targets
from unsc.task import RetainFit, Samples, Task, make_aims
from unsc.watch import Watch

_CLASSES = 3
"""First steps that are tried: those that would forget one class each."""


def measured_together(
    model: nn.Module, layers: tuple[Layer, ...], statistics: Statistics, samples: Batch, num_classes: int
) -> Together:
    """The most that any layer cost beyond its prediction in some first steps, and how layers went together on average.

    `samples` are training samples. The classes that most of them are of are tried; those of one class tell nothing.
    """
    present, counts = samples.labels.cpu().unique(return_counts=True)
    if len(present) < 2:
        return statistics.together
    classes = present[counts.argsort(descending=True, stable=True)].tolist()[:_CLASSES]
    found = [_first_step(model, layers, statistics, samples, Request.for_classes([k], num_classes)) for k in classes]
    excess = torch.stack([one.excess for one in found]).amax(dim=0)
    return Together(excess, torch.stack([one.correlations for one in found]).mean(dim=0))


def _first_step(
    model: nn.Module, layers: tuple[Layer, ...], statistics: Statistics, samples: Batch, request: Request
) -> Together:
    goes = torch.isin(samples.labels, torch.tensor(request.classes))
    own, others = samples[goes], samples[~goes]
    parts = Samples(own, own, RetainFit.from_batch(others), [others])
    watch = Watch(model, [others], request.kept)
    rule = BudgetedRule()
    aims = make_aims(model, request, parts, find_targets(rule.targets, request.kind))
    task = Task(model, layers, request, parts, watch, aims, seed=0, chunk_bytes=256 << 20)
    guide = statistics.curvature(layers, first_gradients(task))
    working = copy.deepcopy(model)
    step = rule.start(working, task, guide)
    step(own.for_model(working), aims.fit[torch.arange(len(own))])
    return Together(step.together.excess * max(1.0, step.excess), step.together.correlations)
