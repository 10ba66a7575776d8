"""Retained outputs, once steps are done: what can be undone of their side effects is undone.

First layers go back where that costs little of the forgetting (`going_back.py`). Then there is the head: steps moved
the features of retained samples a little, and the rows of the head with them, a small batch at a time. With the
features as they are in the end, the rows of the classes that stay that come nearest to what the original network said
of retained samples follow in closed form. Features do not change by it, and nothing of the forgotten samples is used
for it. Of the forgotten outputs the biases alone are lowered, where samples would be given them more often than before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from unsc.batches import Batch, join, pieces
from unsc.features import Head, head_inputs
from unsc.going_back import go_back
from unsc.layers import parameters_of
from unsc.logits import shared_logits
from unsc.looks import Look
from unsc.outputs import linear_at, whole_linear, write_back
from unsc.ridge import Ridge
from unsc.shards import local
from unsc.targets import Goal, Scores, scores_of
from unsc.task import BATCH, Task
from unsc.watch import divergences

_ROWS, _OF_CLASS, _MOST = 8, 64, 1024
"""Retained samples to fit for each input of the head, for each class that stays, and in all, at most: each costs a
forward pass."""
_RIDGES = tuple(10.0**e for e in range(-4, 4))
"""In units of the mean square of the head's inputs."""
_SHARES = (1.0, 0.5, 0.25)
"""Of the change that are tried. Half of it undoes three quarters of what the whole undoes."""
_FEW = 2
"""Batches that layers go back by."""

_ROUNDING = 1e-6
"""Share of a mass that float32 does not tell."""
_LEVELLED = 8
"""Times that a level is corrected by what the mean mass is off: each leaves a small part of the error."""


@torch.no_grad()
def repair(task: Task, model: nn.Module, head: Head | None, reached: Look | None = None) -> None:
    """Bring retained predictions nearer to the original's, in place, as far as forgetting that was reached is not lost.

    `model` is what steps made of the task's original; `head` is that of the original, if it has one; `reached` is a
    look at all samples to check, if they are forgotten: only then layers go back. The retained samples are those to
    fit, so that those to check still say what became of predictions that nothing was fitted to. Records are left
    alone: what they were taught is in the retained predictions of their own classes too. Without a head there is
    nothing to fit, and layers go back all the same.
    """
    if task.request.kind == "records" or int(task.request.stays.sum()) < 2:
        return
    if head is None:
        _back_alone(task, model, reached)
        return
    batches, said = _said(task, _count(task, linear_at(model, head.path)))
    if not batches:
        return
    if reached is None:
        _fit(task, model, head, batches, said, task.look(scores_of(model, task.samples.forget_check)))
        return
    weights = [local(p) for p in parameters_of(model, task.layers).values()]
    ended = [w.clone() for w in weights]
    go_back(task, model, join(batches[:_FEW]), said)
    if not _fit(task, model, head, batches, said, reached):
        _put(ended, weights)
        _fit(task, model, head, batches, said, reached)


def _back_alone(task: Task, model: nn.Module, reached: Look | None) -> None:
    """Layers go back, or half or a quarter as far, if what was `reached` still is then.

    There is no head whose level could make up for what comes back with them.
    """
    if reached is None:
        return
    batches, said = _said(task, _FEW * BATCH)
    if not batches:
        return
    weights = [local(p) for p in parameters_of(model, task.layers).values()]
    ended = [w.clone() for w in weights]
    go_back(task, model, join(batches), said)
    back = [w.clone() for w in weights]
    for share in _SHARES:
        _put([a.lerp(b, share) for a, b in zip(ended, back, strict=True)], weights)
        if _as_forgotten(task.aims.goal, reached, task.look(scores_of(model, task.samples.forget_check))):
            return
    _put(ended, weights)


def _put(values: Iterable[Tensor], weights: Iterable[Tensor]) -> None:
    for value, weight in zip(values, weights, strict=True):
        weight.copy_(value)


def _count(task: Task, layer: nn.Linear) -> int:
    return min(_MOST, _ROWS * layer.in_features, _OF_CLASS * int(task.request.stays.sum()))


def _said(task: Task, count: int) -> tuple[list[Batch], Tensor]:
    """At most `count` retained samples to fit, in batches, and what the original says of them, (n, classes).

    Those that it was asked about before come first.
    """
    fit = task.samples.retain_fit
    places, said = task.said.first(count)
    drawn = fit.positions_drawn(len(fit), len(fit), torch.Generator().manual_seed(task.seed))
    others = torch.cat([*drawn, places[:0]])
    others = others[~torch.isin(others, places)][: count - len(places)]
    asked, new = ([fit.read(chosen) for chosen in part.split(BATCH) if len(chosen)] for part in (places, others))
    logits = [*said, *(shared_logits(task.original, batch) for batch in (new if said else [*asked, *new]))]
    return [*asked, *new], torch.cat(logits) if logits else torch.zeros(0, 0)


def _fit(task: Task, model: nn.Module, head: Head, batches: Sequence[Batch], said: Tensor, before: Look) -> bool:
    """Fit the rows of the classes that stay to what was `said` (n, classes), as far as what was forgotten `before` is.

    Gives whether it is. A class that is known again is not hidden by lowering its output.
    """
    stays = task.request.stays
    own = Head(head.path, whole_linear(linear_at(model, head.path)))

    def inputs(of: Iterable[Batch]) -> Tensor:
        return torch.cat([batch.inputs for batch in head_inputs(model, own, of)]).to(own.layer.weight)

    given = inputs(pieces(task.samples.forget_check))
    if _look(task, own.layer, given).known.hits > before.known.hits:
        return False
    rows = inputs(batches)
    wanted, found = (x[:, stays.to(x.device)].double() for x in (said, own.layer(rows)))
    change = fitted(rows.double(), wanted, found, task.watch.temperature, constant=_has_bias(own.layer))
    kept, forgotten = {name: p.clone() for name, p in own.layer.named_parameters()}, False
    for share in _SHARES if change is not None else (0.0,):
        if change is not None:
            _add(own.layer, change, share, stays)
        _keep_level(task, own.layer, given, before.mass)
        if forgotten := _as_forgotten(task.aims.goal, before, _look(task, own.layer, given)):
            break
        own.layer.load_state_dict(kept)
    write_back(own.layer, linear_at(model, head.path))
    return forgotten


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
    """Lower the outputs that go, all by the same, until forgotten samples hold no more than the `mass` they held.

    Outputs that stay do not see it.
    """
    if not (_has_bias(layer) and 0 < mass < 1):
        return
    stays = task.request.stays.to(layer.weight.device)
    for _ in range(_LEVELLED):
        now = _look(task, layer, given).mass
        if not mass * (1 + _ROUNDING) < now < 1:
            return
        layer.bias[~stays] -= math.log(now / (1 - now)) - math.log(mass / (1 - mass))


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
