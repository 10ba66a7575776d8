"""What a try of settings is worth: the worse of what it keeps and what it forgets, both against the original.

A mean of the two would let a destroyed network win: it forgets everything, and half of that counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.evaluation.shared.attacks import log_probability
from unsc.evaluation.shared.roc import roc
from unsc.logits import accuracy, all_logits
from unsc.methods import Problem

RULE = "worse of kept and forgotten"
"""The name of the rule. Scores by another one cannot be compared with these."""
LOWEST = -1.0
"""The score of a network that diverged; no other has a lower one."""
_USEFUL = 0.5
"""Of the original's retained accuracy: what keeps less is worth less than a network that nothing was done to."""
_TIE = 0.01
"""The weight of the better of the two, which decides where the worse one is the same."""


class Judged(NamedTuple):
    """Accuracies on validation data in percent, and the score."""

    retain_acc: float
    forget_acc: float
    score: float


@dataclass(frozen=True)
class Score:
    """Scores networks on `validation`, retained and forgotten samples, by what the original has there."""

    kind: str
    """Of the request: classes or records."""
    validation: tuple[Batch, Batch]
    retain_acc: float
    """The original's, in percent."""
    forget_acc: float

    @classmethod
    def of(cls, problem: Problem, validation: tuple[Batch, Batch]) -> Score:
        original = problem.copy()
        return cls(problem.request.kind, validation, *(accuracy(original, part) for part in validation))

    def judged(self, model: nn.Module) -> Judged:
        """The score of a network that something was made to forget.

        Kept is its retained accuracy as a share of the original's. Forgotten is the share of the original's accuracy on
        forgotten samples that is gone; for records, how far an attack by the loss is from telling them from unseen
        samples, 1 if it guesses.
        """
        retain, forget = (accuracy(model, part) for part in self.validation)
        kept = retain / self.retain_acc if self.retain_acc else 1.0
        if self.kind == "records":
            forgotten = 1 - 2 * abs(_attacked(model, *self.validation) - 0.5)
        else:
            forgotten = 1 - forget / (self.forget_acc or 100.0)
        return Judged(retain, forget, score(kept, forgotten))


def score(kept: float, forgotten: float) -> float:
    """Of two shares. The original, which keeps 1 and forgets 0, has about 0; a useless network has less than 0."""
    if kept < _USEFUL:
        return kept - 1
    worse, better = sorted((kept, forgotten))
    return (1 - _TIE) * worse + _TIE * better


def _attacked(model: nn.Module, unseen: Batch, records: Batch) -> float:
    """The AUC of an attack that takes what has a small loss for records."""

    def log_p(batch: Batch) -> Tensor:
        there = batch.for_model(model)
        return log_probability(all_logits(model, there), there.labels).cpu()

    with torch.no_grad():
        return float(roc(log_p(records), log_p(unseen)).auc())
