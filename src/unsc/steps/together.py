"""How layers add up: what a step costs retained predictions when all layers move at once.

The curvature knows each layer alone, and of that only a mean over all directions. Along one step layers push the same
predictions the same way, so that together they cost many times the sum. Here the effect of each part of a step is
measured: with U the change of retained logits by a part, F holds the covariances of these changes under the network's
own predictions, and moving the parts by k costs `k.T F k / 2` nats. Each part moves by what it gains for its own cost,
the diagonal of F, so that every layer has its share; the whole of F says how far they may go together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.layers import Layer, Weights
from unsc.logits import shared_logits
from unsc.watch import Watch

_MOST_PARTS = 16
"""Each part takes a forward pass to measure; in deeper networks a part is several layers that follow each other."""
_SHRINK = 0.3
"""How much of the covariances between parts is not believed: they are measured on few samples."""


def parts_of(layers: Sequence[Layer]) -> list[tuple[Layer, ...]]:
    """Layers that follow each other, in at most 16 parts of almost equal size."""
    size = -(-len(layers) // _MOST_PARTS)
    return [tuple(layers[i : i + size]) for i in range(0, len(layers), size)]


@torch.no_grad()
def effects(
    model: nn.Module,
    parts: Sequence[Sequence[Layer]],
    steps: Mapping[str, Tensor],
    lengths: Sequence[float],
    batch: Batch,
    watch: Watch,
) -> Tensor:
    """What moving each part along `steps` does to the predictions of retained samples, float64 (parts, n * classes).

    By finite differences of the given `lengths`. Changes of logits are centred and weighted by the softened
    predictions p, so that products of two of them are covariances under p; rows are divided by the root of n.
    """
    weights = Weights(model, [x for part in parts for x in part])
    logits = shared_logits(model, batch)
    p = watch.log_probabilities(logits).double().exp()
    found = []
    for part, length in zip(parts, lengths, strict=True):
        before = {x.name: weights.matrix(x) for x in part}
        for x in part:
            weights.write(x, torch.sub(before[x.name], steps[x.name], alpha=length))
        moved = (shared_logits(model, batch) - logits)[:, watch.kept].double() / length
        for x in part:
            weights.write(x, before[x.name])
        found.append(((moved - (p * moved).sum(dim=1, keepdim=True)) * p.sqrt()).flatten())
    return torch.stack(found) / math.sqrt(len(batch))


@dataclass(frozen=True)
class Together:
    """How the parts of a step add up, free of how long each of them is."""

    excess: Tensor
    """Measured over predicted cost of each part alone, (parts,)."""
    correlations: Tensor
    """Of the parts' effects, (parts, parts)."""

    @classmethod
    def alone(cls, parts: int) -> Together:
        """As if the curvature were right and no part had to do with another."""
        return cls(torch.ones(parts, dtype=torch.float64), torch.eye(parts, dtype=torch.float64))

    @classmethod
    def measured(cls, changes: Tensor, predicted: Tensor) -> Together:
        """From `effects` and what the curvature predicts of each part, `D.T F D` (parts,)."""
        gram = changes @ changes.T
        size = gram.diagonal().clamp(min=1e-300).sqrt()
        excess = gram.diagonal() / predicted.clamp(min=1e-300)
        # A part without any effect here is not free: the samples were few.
        return cls(excess.clamp(min=1e-3 * excess.max().item()), gram / size[:, None] / size)

    def costs(self, predicted: Tensor) -> Tensor:
        """F (parts, parts) for parts that are predicted to cost so much each."""
        size = (self.excess * predicted.clamp(min=0)).sqrt()
        shrunk = (1 - _SHRINK) * self.correlations + _SHRINK * torch.eye(len(size), dtype=torch.float64)
        return shrunk * size[:, None] * size


def mix_of(costs: Tensor, gains: Tensor) -> Tensor:
    """k (parts,), at least 0: each part moves by what it gains for what it costs alone; zero if it gains nothing.

    The mix that gains most for `k.T costs k / 2` is `costs^-1 gains`. It leaves layers where they are whose effect
    others have more cheaply, in the end all but the last ones, and what was to be forgotten stays in those.
    """
    own = costs.diagonal()
    return torch.where((gains > 0) & (own > 0), gains / own.clamp(min=1e-300), torch.zeros_like(gains))
