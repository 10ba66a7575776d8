"""Budgeted steps where no retained sample is at hand: what they cost is predicted, and nobody looks.

The curvature says what each layer costs alone. How much more layers cost together was measured before, on other steps
(`together.py`), and is taken as it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.layers import Layer, Weights
from unsc.steps.budgeted import ROUNDING, forget_gradients
from unsc.steps.curvature import RetainedCurvature
from unsc.steps.factors import add, dot
from unsc.steps.rule import Step
from unsc.steps.together import Together, mix_of


class BlindStep(Step):
    """Learn target labels, spending `budget` nats of retained prediction change a step, as it is predicted."""

    def __init__(
        self,
        model: nn.Module,
        layers: Sequence[Layer],
        curvature: RetainedCurvature,
        together: Together,
        *,
        budget: float,
    ) -> None:
        self.model, self.layers, self.budget, self.together = model, layers, budget, together
        self.weights = Weights(model, layers)
        example = next(iter(self.weights.parameters.values()))
        self.curvature = curvature.to(example.device, example.dtype)
        for p in self.weights.parameters.values():
            p.requires_grad_(True)

    def __call__(self, batch: Batch, targets: Tensor) -> None:
        """Step on samples and their target distributions (n, classes)."""
        loss, gradients = forget_gradients(self.model, self.layers, batch, targets)
        steps = {name: self.curvature.layers[name].solve(g) for name, g in gradients.items()}
        gains = torch.tensor([dot(gradients[x.name], steps[x.name]) for x in self.layers], dtype=torch.float64)
        if not (gains.sum() > 0 and loss > ROUNDING):
            return  # nothing left to learn from this batch
        costs = self.together.costs(gains)
        mix = mix_of(costs, gains)
        length = min(math.sqrt(2 * self.budget / (mix @ costs @ mix).item()), loss / (mix @ gains).item())
        for x, share in zip(self.layers, mix.tolist(), strict=True):
            add(self.weights, x, steps[x.name], -length * share)

    def predicted_kl(self, original: nn.Module, edited: nn.Module) -> float:
        """By the curvature, layers adding up as they were measured to."""
        alone = [2 * kl for kl, _ in self._costs(original, edited).values()]
        return 0.5 * self.together.costs(torch.tensor(alone, dtype=torch.float64)).sum().item()

    def predicted_drift(self, original: nn.Module, edited: nn.Module) -> dict[str, float]:
        """`sqrt(tr(D A D.T) / tr(W A W.T))` of each layer: the drift on the rows that A is the moment of."""
        costs = self._costs(original, edited)
        return {name: math.sqrt(moved / whole) if whole > 0 else 0.0 for name, (moved, whole) in costs.items()}

    @torch.no_grad()
    def _costs(self, original: nn.Module, edited: nn.Module) -> dict[str, tuple[float, float]]:
        """By layer, what its change costs alone, and what it would cost to lose all of it."""
        before, after = dict(original.named_parameters()), dict(edited.named_parameters())
        found: dict[str, tuple[float, float]] = {}
        for x in self.layers:
            known, matrix = self.curvature.layers[x.name], x.matrix(before)
            found[x.name] = known.kl(x.matrix(after) - matrix), known.kl(matrix)
        return found
