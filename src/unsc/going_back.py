"""Going back, once a class is forgotten: layers return a part of their way where little of the forgetting is lost.

Each step moves every layer by what that layer gains for its own cost, and noise of small batches with it. In the end
most layers have moved retained predictions and lowered the forgotten outputs by next to nothing. What either is worth
is seen by two slopes along a layer's whole way: that of the retained divergence, and that of the forgotten classes'
log-odds. To second order a layer that keeps a share a of its way costs `a**2 / 2` of the first and keeps a of the
second, so that the least cost for what is kept has shares in proportion to the second over the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from unsc import peers
from unsc.batches import Batch, HasSamples
from unsc.layers import Weights
from unsc.logits import logits_of
from unsc.steps.budgeted import forget_gradients
from unsc.steps.factors import dot
from unsc.steps.losses import ForgetLoss
from unsc.task import Task
from unsc.watch import divergences

_KEPT = 0.95
"""Share of what lowers the forgotten log-odds that is kept."""
_LEAST = 0.5
"""Of its way every layer keeps so much, so that what is forgotten is gone from all of them, not from the last ones."""
_SAMPLES = 128
"""Of each side, that slopes are taken from."""
_HALVINGS = 100


Way: TypeAlias = Mapping[str, Tensor]
"""From the original's weights to a network's, by layer: its matrix less that of the original."""


def go_back(task: Task, model: nn.Module, retained: Batch, said: Tensor) -> None:
    """Take the layers of `model`, in place, back to where they cost least, for nearly all that was forgotten.

    `said` (n, classes) are the original's logits for `retained`, of which some are used.
    """
    weights, few = Weights(model, task.layers), torch.arange(min(_SAMPLES, len(retained)))
    way = Weights(task.original, task.layers).way_to(weights)
    costs = _slopes(task, model, way, retained[few], said[few.to(said.device)], _Retained(task))
    forgotten = task.samples.forget_fit
    some = torch.randperm(len(forgotten), generator=torch.Generator().manual_seed(task.seed))[:_SAMPLES]
    gains = -_slopes(task, model, way, forgotten[some], torch.zeros(len(some)), _LogOdds(task))
    if torch.isfinite(costs).all() and torch.isfinite(gains).all():
        kept = shares_kept(costs, gains, kept=_KEPT)
        for x, share in zip(task.layers, kept.tolist(), strict=True):
            weights.add(x, way[x.name], share - 1)


def shares_kept(costs: Tensor, gains: Tensor, *, kept: float, least: float = _LEAST) -> Tensor:
    """The shares a (layers,), from `least` to 1, of the least `costs @ a**2` at which `gains @ a` is `kept` of its sum.

    What has no cost stays whole. Where nothing is gained at all, so does everything.
    """
    gains = gains.clamp(min=0)
    if not gains.sum() > 0:
        return torch.ones_like(gains)
    worth = torch.where(costs > 0, gains / costs.clamp(min=1e-300), torch.inf)

    def shares(price: float) -> Tensor:
        return (worth / price).clamp(least, 1.0)

    low, high = 0.0, worth[worth.isfinite()].max().item() / least if worth.isfinite().any() else 0.0
    for _ in range(_HALVINGS if high > 0 else 0):
        price = (low + high) / 2
        low, high = (price, high) if gains @ shares(price) >= kept * gains.sum() else (low, price)
    return shares(low) if low > 0 else torch.ones_like(gains)


def _slopes(task: Task, model: nn.Module, way: Way, samples: HasSamples, wanted: Tensor, loss: ForgetLoss) -> Tensor:
    """How fast a loss on some samples grows along each layer's way, float64 (layers,)."""
    part = peers.own_part(len(samples))
    own = samples[torch.arange(len(samples))[part]].for_model(model)
    with torch.enable_grad():
        _, gradients = forget_gradients(model, task.layers, own, wanted[part], loss)
    along = {name: dot(g, way[name]) for name, g in gradients.items()}
    total = Weights(model, task.layers).total(along)
    return torch.tensor([total[x.name] for x in task.layers], dtype=torch.float64)


@dataclass(frozen=True)
class _Retained:
    """Mean divergence of predictions over the classes that stay from those of logits that are given."""

    task: Task

    def __call__(self, model: nn.Module, batch: Batch, said: Tensor) -> Tensor:
        stays, t = self.task.request.stays, self.task.watch.temperature
        p, q = ((z[:, stays.to(z.device)].double() / t).log_softmax(dim=1) for z in (said, logits_of(model, batch)))
        return divergences(p, q, t).mean()


@dataclass(frozen=True)
class _LogOdds:
    """Mean log-odds of the classes to forget, against those that stay."""

    task: Task

    def __call__(self, model: nn.Module, batch: Batch, _: Tensor) -> Tensor:
        logits, request = logits_of(model, batch), self.task.request
        gone, stays = (chosen.to(logits.device) for chosen in (~request.kept, request.stays))
        return (logits[:, gone].logsumexp(dim=1) - logits[:, stays].logsumexp(dim=1)).mean()
