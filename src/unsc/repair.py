"""Retained outputs, once steps are done: what the head alone can undo of their side effects is undone.

Steps move the features of retained samples a little, and the rows of the head with them, a small batch at a time. With
the features as they are in the end, the rows of the classes that stay that come nearest to what the original network
said of retained samples follow in closed form. Neither features nor forgotten outputs change, and nothing of the
forgotten samples is used.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unsc.features import Head, head_inputs
from unsc.logits import shared_logits
from unsc.looks import Look
from unsc.outputs import linear_at, whole_linear, write_back
from unsc.ridge import Ridge
from unsc.targets import scores_of
from unsc.task import BATCH, Task
from unsc.watch import divergences

_ROWS, _MOST = 8, 1024
"""Retained samples to fit for each input of the head, and how many at most: each costs two forward passes."""
_RIDGES = tuple(10.0**e for e in range(-4, 4))
"""In units of the mean square of the head's inputs."""


@torch.no_grad()
def repair(task: Task, model: nn.Module, head: Head | None) -> None:
    """Fit the rows of the classes that stay, in place, unless forgetting that was reached would be lost by it.

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
    before = _look(task, model)
    kept = {name: p.clone() for name, p in own.layer.named_parameters()}
    _add(own.layer, change, stays)
    write_back(own.layer, linear_at(model, head.path))
    goal = task.aims.goal
    if goal.reached(before) and not goal.reached(_look(task, model)):
        for name, p in own.layer.named_parameters():
            p.copy_(kept[name])
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


def _look(task: Task, model: nn.Module) -> Look:
    return task.look(scores_of(model, task.samples.forget_check))


def _has_bias(layer: nn.Linear) -> bool:
    return "bias" in dict(layer.named_parameters())


def _add(layer: nn.Linear, change: tuple[Tensor, Tensor], stays: Tensor) -> None:
    """Add to the rows of the classes that stay."""
    chosen = stays.to(layer.weight.device)
    layer.weight[chosen] += change[0].to(layer.weight)
    if _has_bias(layer):
        layer.bias[chosen] += change[1].to(layer.bias)
