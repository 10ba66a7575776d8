"""How layers add up: what a step costs retained predictions when all layers move at once.

The curvature knows each layer alone, and of that only a mean over all directions. Along one step layers push the same
predictions the same way, so that together they cost many times the sum. Here the effect of each layer's part of a step
is measured: F holds the covariances of what the parts do to retained logits, under the network's own predictions, and
moving the parts by k costs `k.T F k / 2` nats. Each part moves by what it gains for its own cost, the diagonal of F,
so that every layer has its share; the whole of F says how far they may go together.

All of F comes from a few backward passes, however many layers there are. Along random combinations of a sample's
logits, weighted so that their products are on average those covariances, the gradient by a layer times its direction is
one number for each layer; products of these numbers are on average F.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from unsc import peers
from unsc.batches import Batch
from unsc.layers import Layer, Weights
from unsc.logits import logits_of
from unsc.pieces import learned_from
from unsc.steps.factors import Matrix, dot, own_gradients
from unsc.steps.gradients import BatchLoss, total_gradients
from unsc.steps.slopes import slopes
from unsc.watch import Watch

T = TypeVar("T")

_TOGETHER = 4
"""Samples whose combinations are summed. They are independent with mean zero, so that products of sums are on
average sums of products; fewer at once are less random and take longer."""
_SHRINK = 0.3
"""How much of the covariances between parts is not believed: they are measured on few samples."""


def effects(
    model: nn.Module,
    layers: Sequence[Layer],
    directions: Mapping[str, Matrix],
    batches: Sequence[Batch],
    watch: Watch,
    *,
    seed: int,
) -> Tensor:
    """What moving each layer along its direction does to the predictions of retained samples, float64 (rows, layers).

    `effects.T @ effects` is F on average over the random combinations that `seed` chooses. Under several ranks each
    takes some of the samples; the rows are those of all.
    """
    weights, combined = Weights(model, layers), _combined(model, watch)
    rows: list[Tensor] = []
    first = 0
    for batch in (b.for_model(model) for b in batches):
        numbered = list(enumerate(torch.arange(len(batch), device=batch.labels.device).split(_TOGETHER), first))
        first += len(numbered)
        own = [_Few(of, _signs(watch, len(of), (seed, i))) for i, of in _shared_out(numbered, weights.sharded)]
        if weights.sharded:  # all ranks make a pass together, each on a part of the samples
            rows += [_of_all_ranks(model, layers, directions, few, batch, weights, combined) for few in own]
        else:
            for some in _in_passes(own, batch):
                rows += _of_own(model, layers, directions, some, batch, combined)
    if not weights.sharded:
        rows = [row for of_rank in peers.gathered(rows) for row in of_rank]
    return torch.stack(rows) / math.sqrt(sum(map(len, batches)))


@dataclass(frozen=True)
class _Few:
    """Samples of a batch whose combinations are summed."""

    chosen: Tensor
    """Where they are, (n,)."""
    signs: Tensor
    """Of their combinations, (n, kept classes)."""


def _shared_out(things: Sequence[T], together: bool) -> Iterable[T]:
    """All of them if ranks do each together, else this rank's."""
    return things if together else peers.mine(things)


def _in_passes(own: Sequence[_Few], batch: Batch) -> Iterable[Sequence[_Few]]:
    """As many as go through the network at once."""
    each = max(1, learned_from(batch.labels.device) // _TOGETHER)
    return (own[start : start + each] for start in range(0, len(own), each))


def _signs(watch: Watch, samples: int, seeds: tuple[int, int]) -> Tensor:
    generator = torch.Generator().manual_seed(peers.seed_from(*seeds))
    return (2 * torch.randint(2, (samples, int(watch.kept.sum())), generator=generator) - 1).to(watch.kept.device)


def _of_own(
    model: nn.Module,
    layers: Sequence[Layer],
    directions: Mapping[str, Matrix],
    own: Sequence[_Few],
    batch: Batch,
    combined: BatchLoss,
) -> list[Tensor]:
    """A row for each of some few samples, in one backward pass if the layers allow it, else in one for each row."""
    chosen, signs = (torch.cat(parts) for parts in zip(*((few.chosen, few.signs) for few in own), strict=True))
    found = slopes(model, layers, directions, partial(combined, batch[chosen], signs), len(chosen))
    if found is not None:
        return [part.sum(dim=0) for part in found.split([len(few.chosen) for few in own])]
    rows: list[Tensor] = []
    for few in own:
        total = partial(combined, batch[few.chosen], few.signs)
        gradients = own_gradients(model, layers, total, len(few.chosen))[1]
        along = [dot(gradients[x.name], directions[x.name]) for x in layers]
        rows.append(torch.tensor(along, dtype=torch.float64))
    return rows


def _of_all_ranks(
    model: nn.Module,
    layers: Sequence[Layer],
    directions: Mapping[str, Matrix],
    few: _Few,
    batch: Batch,
    weights: Weights,
    combined: BatchLoss,
) -> Tensor:
    """A row for a few samples of a batch, of which each rank takes a part and has some rows of the weights."""
    part = peers.own_part(len(few.chosen))
    gradients = weights.matrices(
        total_gradients(model, weights.parameters, combined, batch[few.chosen[part]], few.signs[part])[1]
    )
    along = weights.total({x.name: dot(gradients[x.name], directions[x.name]) for x in layers})
    return torch.tensor([along[x.name] for x in layers], dtype=torch.float64)


def _combined(model: nn.Module, watch: Watch) -> BatchLoss:
    """Combinations of samples' logits, by `signs` (n, kept classes): products of them are on average covariances."""

    def of(batch: Batch, signs: Tensor) -> Tensor:
        logits = logits_of(model, batch)
        p = watch.log_probabilities(logits.detach()).exp()
        kept = logits[:, watch.kept].double()
        return (signs * p.sqrt() * (kept - (p * kept).sum(dim=1, keepdim=True))).sum()

    return of


@dataclass(frozen=True)
class Together:
    """How the layers' parts of a step add up, free of how long each of them is."""

    excess: Tensor
    """Measured over predicted cost of each layer alone, (layers,)."""
    correlations: Tensor
    """Of the layers' effects, (layers, layers)."""

    @classmethod
    def alone(cls, layers: int) -> Together:
        """As if the curvature were right and no layer had to do with another."""
        return cls(torch.ones(layers, dtype=torch.float64), torch.eye(layers, dtype=torch.float64))

    @classmethod
    def measured(cls, changes: Tensor, predicted: Tensor) -> Together:
        """From `effects` and what the curvature predicts of each layer, `D.T F D` (layers,)."""
        gram = changes.T @ changes
        size = gram.diagonal().clamp(min=1e-300).sqrt()
        excess = gram.diagonal() / predicted.clamp(min=1e-300)
        # A layer without any effect here is not free: the samples were few.
        return cls(excess.clamp(min=1e-3 * excess.max().item()), gram / size[:, None] / size)

    def averaged(self, other: Together) -> Together:
        """Of two measurements: the mean of what they found each pair of layers to cost beyond prediction."""
        grams = [x.correlations * x.excess.sqrt()[:, None] * x.excess.sqrt() for x in (self, other)]
        excess = (self.excess + other.excess) / 2
        size = excess.clamp(min=1e-300).sqrt()
        return Together(excess, (grams[0] + grams[1]) / 2 / size[:, None] / size)

    def over(self, layers: int) -> Together:
        """The same for so many layers, where it has one entry for several that follow each other, as in 0.3.0."""
        of = torch.arange(layers) // -(-layers // len(self.excess))
        return Together(self.excess[of], self.correlations[of[:, None], of])

    def costs(self, predicted: Tensor) -> Tensor:
        """F (layers, layers) for layers that are predicted to cost so much each."""
        size = (self.excess * predicted.clamp(min=0)).sqrt()
        shrunk = (1 - _SHRINK) * self.correlations + _SHRINK * torch.eye(len(size), dtype=torch.float64)
        return shrunk * size[:, None] * size


def mix_of(costs: Tensor, gains: Tensor) -> Tensor:
    """k (layers,), at least 0: each layer moves by what it gains for what it costs alone; zero if it gains nothing.

    The mix that gains most for `k.T costs k / 2` is `costs^-1 gains`. It leaves layers where they are whose effect
    others have more cheaply, in the end all but the last ones, and what was to be forgotten stays in those.
    """
    own = costs.diagonal()
    return torch.where((gains > 0) & (own > 0), gains / own.clamp(min=1e-300), torch.zeros_like(gains))
