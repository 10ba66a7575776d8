"""The budgeted step: the most forgetting for a given change of retained predictions. It has no learning rate.

For the gradient G of the forget loss, the step `D = -k G (b (A + damping I))^-1` lowers that loss most for a
predicted retained KL of `budget` nats, which sets k. The prediction is then checked: if retained predictions
moved more than the budget allows, the step is taken back and tried shorter, and later steps start from there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.layers import Layer, parameters_of
from unsc.logits import logits_of
from unsc.steps.curvature import RetainedCurvature, gradients_of
from unsc.watch import Watch

_TRIES = 12
_ROUNDING = 1e-6
"""A forget loss in nats that float32 cannot tell from 0; it may even be negative."""


def forget_gradients(
    model: nn.Module, layers: Sequence[Layer], batch: Batch, targets: Tensor
) -> tuple[float, dict[str, Tensor]]:
    """The forget loss, KL from `targets` (n, classes) in nats, and its gradient by each layer's matrix."""
    loss = F.kl_div(logits_of(model, batch).log_softmax(dim=1), targets, reduction="batchmean")
    grads = gradients_of(loss, parameters_of(model, layers))
    return loss.item(), {layer.name: layer.matrix(grads) for layer in layers}


class BudgetedStep:
    """Learn target labels, spending at most `budget` nats of retained prediction change a step."""

    def __init__(
        self, model: nn.Module, layers: Sequence[Layer], metric: RetainedCurvature, watch: Watch, *, budget: float
    ) -> None:
        self.model, self.layers, self.watch, self.budget = model, layers, watch, budget
        self.parameters = parameters_of(model, layers)
        example = next(iter(self.parameters.values()))
        self.metric = metric.to(example.device, example.dtype)
        for p in self.parameters.values():
            p.requires_grad_(True)
        self.scale = 1.0
        """Share of the predicted step length that measurement has allowed so far."""
        self.taken_back = 0
        self._spent = 0.0

    def __call__(self, batch: Batch, targets: Tensor) -> None:
        """Step on samples and their target distributions (n, classes)."""
        loss, gradients = forget_gradients(self.model, self.layers, batch, targets)
        steps = {name: self.metric.layers[name].solve(g) for name, g in gradients.items()}
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
            kl = self.watch.kl(self.model, quick=True)
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
