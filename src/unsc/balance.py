"""Class balance, once records have gone: unseen samples are given to each class as often as they were before.

What records are taught moves all samples that look like them a little, and in the end some classes are predicted less
often and others more. To leave out some records of all classes gives no class a reason for that. So each output is
raised or lowered, for all samples alike, until samples that the network was not trained on have the mean prediction
that the original network had. Which of them belongs where, and what became of each record, hardly changes by it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unsc.features import Head
from unsc.outputs import linear_at, whole_linear, write_back
from unsc.targets import Scores
from unsc.task import Task
from unsc.wrappers import without_wrappers

_ROUNDS = 100
"""Corrections of the levels: each leaves a part of the error."""
_LEAST = 1e-6
"""Mean probability below which a class is no more than rounding."""
_SHARES = (1.0, 0.5, 0.25)
"""Of the change of levels that are tried, as in `unsc.repair`."""


@dataclass(frozen=True)
class Reached:
    """What the network that a run ends with says of the samples that it is judged on."""

    records: Scores
    unseen: Scores
    """Of validation samples; empty if there are none."""

    def raised(self, by: Tensor) -> Reached:
        """With outputs that are higher by so much, (classes,)."""
        return Reached(*(Scores(x.logits + by.to(x.logits), x.labels) for x in (self.records, self.unseen)))


def levels(before: Tensor, after: Tensor) -> Tensor:
    """What to add to logits `after` so that their mean prediction is that of `before`, both (n, classes): (classes,).

    It adds up to 0, since a prediction does not see what all of its logits share.
    """
    wanted = before.double().softmax(dim=1).mean(dim=0).clamp(min=_LEAST)
    # A level is a factor of its class's odds, so that the exponentials are made once and not in every round.
    odds, factors = after.double().softmax(dim=1), torch.ones_like(wanted)
    for _ in range(_ROUNDS):
        now = factors * (odds.mT @ (odds @ factors).reciprocal()) / len(odds)
        factors = factors * wanted / now.clamp(min=_LEAST)
    found = factors.log()
    return found - found.mean()


@torch.no_grad()
def balanced(task: Task, result: nn.Module, final: nn.Module, head: Head | None, said: Reached) -> Reached:
    """Bring `result`, and its working copy `final`, to the original's class balance; gives what is said then.

    That is left out where records would no longer be where they should be, and half or a quarter of the way is gone if
    that does not harm them. A head without a bias stays as it is.
    """
    if head is None or not (task.aims.rule.keeps_balance and len(said.unseen)):
        return said
    inside = whole_linear(linear_at(final, head.path))
    if "bias" not in dict(inside.named_parameters()):
        return said
    stays, goal = task.request.stays.to(said.unseen.logits.device), task.aims.goal
    change = torch.zeros(len(stays), dtype=torch.double, device=stays.device)
    change[stays] = levels(task.aims.unseen.logits.to(change.device)[:, stays], said.unseen.logits[:, stays])
    if not torch.isfinite(change).all():
        return said
    was_reached = goal.reached(task.look(said.records))
    for share in _SHARES:
        now = said.raised(share * change)
        if not was_reached or goal.reached(task.look(now.records)):
            _raise(result, final, head, share * change)
            return now
    return said


def _raise(result: nn.Module, final: nn.Module, head: Head, by: Tensor) -> None:
    for layer in (linear_at(without_wrappers(result).inner, head.path), linear_at(final, head.path)):
        changed = whole_linear(layer)
        changed.bias.add_(by.to(changed.bias))
        write_back(changed, layer)
