"""Targets of samples whose classes go: the classes that the original network itself finds most similar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from unsc.errors import InvalidRequest
from unsc.request import Kind
from unsc.targets.goal import Goal, Gone
from unsc.targets.rule import Evidence, TargetRule, Targets, find_targets
from unsc.targets.scores import Scores


@dataclass(frozen=True)
class PseudoLabels(TargetRule):
    """Anything but the removed classes, which for a record is its own label."""

    serves: ClassVar[tuple[Kind, ...]] = ("classes", "records")
    does: ClassVar[str] = "was moved away from its own label as far as possible"
    limits: ClassVar[str] = (
        "That is right for poisoned or mislabelled records. A network trained without a record may still classify it "
        "correctly, so for others this can forget more than retraining would."
    )

    def goal(self, kind: Kind, stop_mass: float) -> Goal:
        # A record is done once it leaves its class; a class once its held-out samples hold almost no mass there.
        return Gone(stop_mass if kind == "classes" else 1.0)


@dataclass(frozen=True)
class Soft(PseudoLabels):
    """The network's own relative scores of all classes that are left."""

    name: ClassVar[Targets] = "soft"
    each_alone: ClassVar[bool] = True

    def make(self, evidence: Evidence) -> Tensor:
        return _left(evidence).softmax(dim=1)


@dataclass(frozen=True)
class Hard(PseudoLabels):
    """The paper's rule: all mass on the highest score that is left.

    That is the second-best class if the network was right, and its first if it was wrong.
    """

    name: ClassVar[Targets] = "hard"
    each_alone: ClassVar[bool] = True

    def make(self, evidence: Evidence) -> Tensor:
        return F.one_hot(_left(evidence).argmax(dim=1), evidence.removed.shape[1]).float()


@dataclass(frozen=True)
class Random(PseudoLabels):
    """Whatever the network says: one class that is left, drawn uniformly with a fixed seed."""

    name: ClassVar[Targets] = "random"

    def make(self, evidence: Evidence) -> Tensor:
        allowed = _left(evidence) > -torch.inf
        drawn = torch.multinomial(allowed.float().cpu(), 1, generator=torch.Generator().manual_seed(0)).flatten()
        return F.one_hot(drawn.to(allowed.device), allowed.shape[1]).float()


def pseudo_labels(logits: Tensor, removed: Tensor, *, targets: Targets = "soft") -> Tensor:
    """Target distributions (n, classes) for forgotten samples, from the original network's `logits` (n, classes).

    `removed` (n, classes) is true where a sample must not go: the forgotten classes, or a record's own class
    (`Request.removed`). `targets` is `"soft"`, `"hard"` or `"random"`.
    """
    return find_targets(targets, "classes").make(Evidence(Scores(logits, removed.int().argmax(dim=1)), removed))


def _left(evidence: Evidence) -> Tensor:
    """Scores of the classes that a sample may go to, and -inf of the others."""
    if evidence.removed.all(dim=1).any():
        raise InvalidRequest("no class is left to move a forgotten sample to; retain at least one class")
    return evidence.forgotten.logits.float().masked_fill(evidence.removed, -torch.inf)
