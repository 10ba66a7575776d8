"""Retained outputs, once steps are done: what the head alone can undo of their side effects is undone.

Steps move the features of retained samples a little, and the rows of the head with them, a small batch at a time. With
the features as they are in the end, the rows of the classes that stay that come nearest to what the original network
said of retained samples follow in closed form. Neither features nor forgotten outputs change, and nothing of the
forgotten samples is used.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from unsc.batches import pieces
from unsc.features import Head, head_inputs
from unsc.logits import shared_logits
from unsc.looks import Look
from unsc.outputs import linear_at, whole_linear, write_back
from unsc.ridge import Ridge
from unsc.targets import Goal, Scores
from unsc.task import BATCH, Task
from unsc.watch import divergences

_ROWS, _MOST = 8, 1024
"""Retained samples to fit for each input of the head, and how many at most: each costs two forward passes."""
_RIDGES = tuple(10.0**e for e in range(-4, 4))
"""In units of the mean square of the head's inputs."""
_SHARES = (1.0, 0.5, 0.25)
"""Of the change that are tried. Half of it undoes three quarters of what the whole undoes."""

_LEVELLED = 8
"""Times that a level is corrected by what the mean mass is off: each leaves a small part of the error."""


@torch.no_grad()
def repair(task: Task, model: nn.Module, head: Head | None) -> None:
    """Fit the rows of the classes that stay, in place, as far as forgetting that was reached is not lost by it.

    `model` is what steps made of the task's original; `head` is that of the original, if it has one. The samples are
    those to fit, so that those to check still say what became of predictions that nothing was fitted to. Records are
    left alone: what they were taught is in the retained predictions of their own classes too.
    """
    if head is None or task.request.kind == "records":
        return
    stays = task.request.stays
    own = Head(head.path, whole_linear(linear_at(model, head.path)))
    count = min(_MOST, _ROWS * own.layer.in_features)
    batches = list(task.samples.retain_fit.draw(count, BATCH, torch.Generator().manual_seed(task.seed)))
    if not batches or int(stays.sum()) < 2:
        return
    rows = torch.cat([batch.inputs for batch in head_inputs(model, own, batches)]).to(own.layer.weight)
    wanted = torch.cat([shared_logits(task.original, batch) for batch in batches])[:, stays.to(rows.device)].double()
    found = own.layer(rows)[:, stays.to(rows.device)].double()
    change = fitted(rows.double(), wanted, found, task.watch.temperature, constant=_has_bias(own.layer))
    if change is None:
        return
    given = torch.cat([batch.inputs for batch in head_inputs(model, own, pieces(task.samples.forget_check))]).to(rows)
    kept = {name: p.clone() for name, p in own.layer.named_parameters()}
    before = _look(task, own.layer, given)
    for share in _SHARES:
        _add(own.layer, change, share, stays)
        _keep_level(task, own.layer, given, before.mass)
        if _as_forgotten(task.aims.goal, before, _look(task, own.layer, given)):
            break
        own.layer.load_state_dict(kept)
    write_back(own.layer, linear_at(model, head.path))


def fitted(
    rows: Tensor, wanted: Tensor, found: Tensor, temperature: float, *, constant: bool
) -> tuple[Tensor, Tensor] | None:
    """What to add to weight (classes, units) and bias (classes,), so that logits on `rows` (n, units) get from `found`
    to `wanted`, both (n, classes) and float64; None if predictions of samples left out would get no nearer.

    The ridge is the one at which those, softened by the `temperature`, come nearest. A sample's logits may all be
    higher or lower by the same: the mean that its prediction takes of them stays.
    """
    p = (wanted / temperature).log_softmax(dim=1)
    apart = wanted - found
    apart = apart - (p.exp() * apart).sum(dim=1, keepdim=True)
    if len(rows) < 2 or not torch.isfinite(apart).all():
        return None

    def far(logits: Tensor) -> float:
        return divergences(p, (logits / temperature).log_softmax(dim=1), temperature).mean().item()

    regression = Ridge.of(rows, apart, constant=constant)
    least, best = min((far(found + regression.left_out(ridge)), ridge) for ridge in _RIDGES)
    return regression.solution(best) if least < far(found) else None


def _look(task: Task, layer: nn.Linear, given: Tensor) -> Look:
    """At the forgotten samples to check, for which the head is `given` so much, (n, units)."""
    return task.look(Scores(layer(given), task.samples.forget_check.labels.to(given.device)))


def _keep_level(task: Task, layer: nn.Linear, given: Tensor, mass: float) -> None:
    """Raise the outputs that stay, all by the same, until forgotten samples hold no more than the `mass` they held.

    Predictions over the classes that stay do not see it.
    """
    if not (_has_bias(layer) and 0 < mass < 1):
        return
    stays = task.request.stays.to(layer.weight.device)
    for _ in range(_LEVELLED):
        now = _look(task, layer, given).mass
        if not mass < now < 1:
            return
        layer.bias[stays] += math.log(now / (1 - now)) - math.log(mass / (1 - mass))


def _as_forgotten(goal: Goal, before: Look, after: Look) -> bool:
    """Whether no more samples are known, and the goal is reached if it was."""
    return after.known.hits <= before.known.hits and (goal.reached(after) or not goal.reached(before))


def _has_bias(layer: nn.Linear) -> bool:
    return "bias" in dict(layer.named_parameters())


def _add(layer: nn.Linear, change: tuple[Tensor, Tensor], share: float, stays: Tensor) -> None:
    """Add a share of a change to the rows of the classes that stay."""
    chosen = stays.to(layer.weight.device)
    layer.weight[chosen] += share * change[0].to(layer.weight)
    if _has_bias(layer):
        layer.bias[chosen] += share * change[1].to(layer.bias)
