"""The budgeted step: the most forgetting for a given change of retained predictions. It has no learning rate.

For the gradient G of the forget loss, the step `D = -k G (b (A + damping I))^-1` lowers that loss most for a
predicted retained KL of `budget` nats, which sets k. The prediction is then checked: if retained predictions
moved more than the budget allows, the step is taken back and tried shorter, and later steps start from there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.checks import is_number, require
from unsc.collect import collect
from unsc.layers import Layer, parameters_of
from unsc.logits import logits_of
from unsc.progress import Progress
from unsc.steps.curvature import RetainedCurvature, assemble, gradients_of, sensitivities
from unsc.steps.rule import Step, StepRule
from unsc.targets import Targets, pseudo_labels
from unsc.task import Task
from unsc.watch import Watch

_TRIES = 12
_ROUNDING = 1e-6
"""A forget loss in nats that float32 cannot tell from 0; it may even be negative."""
_FEWEST_STEPS = 64
"""Small requests take more passes, so that their steps are not too few for the budget of each."""
_SENSITIVITY_SAMPLES, _SENSITIVITY_BATCH = 512, 16
_DAMPING_SAMPLES = 256


@dataclass(frozen=True)
class BudgetedRule(StepRule[RetainedCurvature]):
    """Steps that each spend a budget of retained prediction change."""

    name: ClassVar[str] = "budgeted"
    guides: ClassVar[tuple[type, ...]] = (RetainedCurvature,)
    targets: ClassVar[Targets] = "soft"
    max_kl: ClassVar[float] = 0.1

    budget: float = 1e-4
    """Nats of retained prediction change that each step may predict."""

    def __post_init__(self) -> None:
        require("budget", self.budget, "a number above 0", is_number(self.budget) and self.budget > 0)

    def passes(self, steps_per_pass: int) -> int:
        return max(2, -(-_FEWEST_STEPS // steps_per_pass))

    def prepare(self, task: Task, progress: Progress) -> RetainedCurvature:
        """What weight changes cost all data that stays, the remaining samples of records' classes included."""
        model, layers, fit = task.original, task.layers, task.samples.retain_fit
        with progress("moments", fit.number_of_batches()) as advance:
            moments = collect(model, layers, fit.all(), chunk_bytes=task.chunk_bytes, advance=advance)
        check = collect(model, layers, task.samples.retain_check, chunk_bytes=task.chunk_bytes)
        samples = len(fit), sum(map(len, task.samples.retain_check))
        generator = torch.Generator().manual_seed(task.seed)
        drawn = fit.draw(_SENSITIVITY_SAMPLES, _SENSITIVITY_BATCH, generator)
        b = sensitivities(model, layers, drawn, moments, samples[0], task.watch, generator=generator)
        return assemble(layers, moments, check, samples, b, _first_gradients(task))

    def start(self, model: nn.Module, task: Task, guide: RetainedCurvature) -> BudgetedStep:
        return BudgetedStep(model, task.layers, guide, task.watch, budget=self.budget)


def _first_gradients(task: Task) -> dict[str, Tensor]:
    """Those of the forget loss at the original network, whose steps the damping is chosen for."""
    forgotten = task.samples.forget_fit
    some = forgotten[torch.arange(min(_DAMPING_SAMPLES, len(forgotten)))].for_model(task.original)
    with torch.no_grad():
        logits = logits_of(task.original, some)
    targets = pseudo_labels(logits, task.request.removed(some.labels), targets=task.targets)
    return forget_gradients(task.original, task.layers, some, targets)[1]


def forget_gradients(
    model: nn.Module, layers: Sequence[Layer], batch: Batch, targets: Tensor
) -> tuple[float, dict[str, Tensor]]:
    """The forget loss, KL from `targets` (n, classes) in nats, and its gradient by each layer's matrix."""
    loss = F.kl_div(logits_of(model, batch).log_softmax(dim=1), targets, reduction="batchmean")
    grads = gradients_of(loss, parameters_of(model, layers))
    return loss.item(), {layer.name: layer.matrix(grads) for layer in layers}


class BudgetedStep(Step):
    """Learn target labels, spending at most `budget` nats of retained prediction change a step."""

    def __init__(
        self, model: nn.Module, layers: Sequence[Layer], curvature: RetainedCurvature, watch: Watch, *, budget: float
    ) -> None:
        self.model, self.layers, self.watch, self.budget = model, layers, watch, budget
        self.parameters = parameters_of(model, layers)
        example = next(iter(self.parameters.values()))
        self.curvature = curvature.to(example.device, example.dtype)
        for p in self.parameters.values():
            p.requires_grad_(True)
        self.scale = 1.0
        """Share of the predicted step length that measurement has allowed so far."""
        self._spent = 0.0

    def __call__(self, batch: Batch, targets: Tensor) -> None:
        """Step on samples and their target distributions (n, classes)."""
        loss, gradients = forget_gradients(self.model, self.layers, batch, targets)
        steps = {name: self.curvature.layers[name].solve(g) for name, g in gradients.items()}
        # b tr(D (A + damping I) D.T) of the unit step is <G, D>.
        cost = sum((gradients[name] * step).sum().item() for name, step in steps.items())
        if not (cost > 0 and loss > _ROUNDING):
            return  # nothing left to learn from this batch
        with torch.no_grad():
            before = {x.name: x.matrix(self.parameters) for x in self.layers}
        # Spend the budget, but go no further than where the loss, were it linear, would be gone.
        length = min(math.sqrt(2 * self.budget / cost), loss / cost)
        for _ in range(_TRIES):
            for layer in self.layers:
                layer.write(before[layer.name] - self.scale * length * steps[layer.name], self.parameters)
            kl = self.watch.quick_kl(self.model)
            # The root of the KL is a length: a step of the budget's length adds at most its own.
            growth = math.sqrt(kl) - math.sqrt(self._spent) if math.isfinite(kl) else math.inf
            if growth <= 2 * math.sqrt(self.budget):
                self._spent = kl
                self.scale = min(1.0, 1.2 * self.scale)
                return
            self.scale *= max(0.01, min(0.5, math.sqrt(self.budget) / growth))
            self.taken_back += 1
        for layer in self.layers:
            layer.write(before[layer.name], self.parameters)

    @torch.no_grad()
    def predicted_kl(self, original: nn.Module, edited: nn.Module) -> float:
        """By the curvature, adding up layers as if each had moved alone."""
        before, after = dict(original.named_parameters()), dict(edited.named_parameters())
        return sum(self.curvature.layers[x.name].kl(x.matrix(after) - x.matrix(before)) for x in self.layers)
