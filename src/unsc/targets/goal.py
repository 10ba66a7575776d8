"""When a run is done: what is still left to do for the samples to forget, and when it is little enough."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from unsc.looks import Look
from unsc.ranks import auc


@dataclass(frozen=True)
class Goal(ABC):
    """What must be small on average, and how small is enough."""

    enough: float

    @abstractmethod
    def left(self, look: Look) -> Tensor:
        """What is still to do for each sample, (n,), not negative. The state with the least of it is the best."""

    def reached(self, look: Look) -> bool:
        """Whether a look at all samples shows that the run is done."""
        return self.left(look).mean().item() <= self.enough

    def refuted(self, look: Look, total: int) -> bool:
        """Whether a look at some of `total` samples shows that it is not reached, whatever the others are like.

        What is left is not negative, so the others cannot bring the mean down. NaN refutes it too.
        """
        return not self.left(look).sum().item() <= self.enough * total


@dataclass(frozen=True)
class Gone(Goal):
    """No sample is classified as a removed class, and those hold at most a mean probability of `enough`."""

    def left(self, look: Look) -> Tensor:
        return look.masses

    def reached(self, look: Look) -> bool:
        return not look.hits.any() and super().reached(look)

    def refuted(self, look: Look, total: int) -> bool:
        return bool(look.hits.any()) or super().refuted(look, total)


@dataclass(frozen=True)
class Near(Goal):
    """Predictions are within `enough` nats of their targets, on average."""

    @property
    def asks(self) -> str:
        """What must be reached, in words."""
        return f"at most {self.enough:g}"

    def left(self, look: Look) -> Tensor:
        return look.distances


@dataclass(frozen=True)
class Unnoticed(Near):
    """Predictions are within `enough` nats of their targets, or so near that an attack cannot tell the two apart.

    The attack takes a record's probability of its label. Against samples that have the targets' probabilities its AUC
    is 0.5, give or take 1 / sqrt(12 n) for n records, however many such samples it has. Beyond `most` nats they are
    not near, whatever an attack on all of them sees.
    """

    most: float = 0.02

    @property
    def asks(self) -> str:
        return f"at most {self.enough:g} ({self.most:g} if no attack on so many records could see a difference)"

    def reached(self, look: Look) -> bool:
        return super().reached(look) or (self.left(look).mean().item() <= self.most and _unseen_by_attack(look))

    def refuted(self, look: Look, total: int) -> bool:
        return not self.left(look).sum().item() <= max(self.enough, self.most) * total


def _unseen_by_attack(look: Look) -> bool:
    return auc(look.masses.cpu(), look.wanted.cpu()) - 0.5 <= (12 * len(look)) ** -0.5
