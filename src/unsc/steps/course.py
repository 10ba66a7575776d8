"""The course of the steps: a running mean of their directions, in which the noise of single batches averages out.

Towards the end a batch's gradient is mostly noise. Steps along it spend their budget on coming and going, and seem to
gain more than they do. Past directions say where the way goes on the whole, which takes fewer steps.
What the mean is predicted to cost follows from what each new direction does, since the curvature M stays the same:
with D = G / M, the product of an earlier direction V with D in that metric is `<V, G>`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unsc.layers import Layer, Weights
from unsc.steps.factors import Matrix, dot, mixed


@dataclass(frozen=True)
class Heading:
    """Where a step goes, at length 1; figures by layer, float64 (layers,)."""

    directions: Mapping[str, Matrix]
    costs: Tensor
    """What each layer alone is predicted to cost, `b tr(V (A + damping I) V.T)`."""
    gains: Tensor
    """By how much the loss of the batch at hand falls, as its gradient says."""


class Course:
    """The running mean of what it is given; the newest direction has a share of `1 - past` in the long run."""

    def __init__(self, weights: Weights, layers: Sequence[Layer], past: float) -> None:
        self.weights, self.layers, self.past = weights, layers, past
        self._mean: dict[str, Matrix] = {}
        self._costs = torch.zeros(len(layers), dtype=torch.float64)
        self._weight = 0.0

    def turned(self, gradients: Mapping[str, Matrix], steps: Mapping[str, Matrix]) -> Heading:
        """The mean with one more direction; `steps` is what the curvature makes of the `gradients` of a batch."""
        new = self._products(gradients, steps)
        if not (self.past and self._mean):
            return self._begun(steps, new)
        old = self._products(gradients, self._mean)
        before = self.past * self._weight
        weight = before + 1 - self.past
        share = (1 - self.past) / weight
        gains = (1 - share) * old + share * new
        if gains.sum() <= 0:
            return self._begun(steps, new)  # the course leads uphill by now
        self._weight = weight
        self._mean = {name: mixed(self._mean[name], steps[name], share) for name in self._mean}
        self._costs = (1 - share) ** 2 * self._costs + 2 * share * (1 - share) * old + share**2 * new
        return Heading(self._mean, self._costs, gains)

    def _begun(self, steps: Mapping[str, Matrix], products: Tensor) -> Heading:
        """A course of this direction alone, which costs what it gains."""
        self._mean, self._costs, self._weight = dict(steps), products, 1 - self.past
        return Heading(self._mean, products, products)

    def _products(self, gradients: Mapping[str, Matrix], directions: Mapping[str, Matrix]) -> Tensor:
        found = self.weights.total({x.name: dot(gradients[x.name], directions[x.name]) for x in self.layers})
        return torch.tensor([found[x.name] for x in self.layers], dtype=torch.float64)
