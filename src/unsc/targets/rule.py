"""What a rule for targets is: from what the original network says, where forgotten samples should go.

A rule is a frozen dataclass whose fields are its own options. `forget(..., targets="name")` finds it by its name; one
with other options is passed as it is, `forget(..., targets=Lowered(shift=2.0))`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from unsc.errors import InvalidRequest, either
from unsc.request import Kind
from unsc.targets.goal import Goal
from unsc.targets.readout import Readout
from unsc.targets.scores import NO_SCORES, Scores

Targets: TypeAlias = Literal["soft", "hard", "random", "unseen", "lowered", "away", "relabel"]
"""The rules of this folder by name."""
TARGETS: tuple[Targets, ...] = get_args(Targets)


@dataclass(frozen=True)
class Evidence:
    """What targets are made from."""

    forgotten: Scores
    """Of the original network, on the samples to forget."""
    removed: Tensor
    """True where a sample must not go, bool (n, classes): forgotten classes, or a record's own class."""
    trained: Scores = NO_SCORES
    """Of the original network, on other samples that it was trained on; empty if they are not needed."""
    unseen: Scores = NO_SCORES
    """Of the original network, on samples that it was not trained on; empty if there are none."""
    readout: Readout | None = None
    """What a read-out of one of its layers says of all three; None if there is none that can be used."""
    label_scores: Tensor | None = None
    """How much each label fits each sample to forget, by a read-out of retained ones, (n, classes); None if unknown."""
    new_labels: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    """The labels that records should have had, (n,); empty if nobody says."""
    unseen_margins: Tensor = field(default_factory=lambda: torch.empty(0))
    """Of unseen samples by the first network of a sequence of requests, (k,); empty if this is the first."""


@dataclass(frozen=True)
class TargetRule(ABC):
    """Where forgotten samples go, and when they are there."""

    name: ClassVar[Targets]
    serves: ClassVar[tuple[Kind, ...]]
    """The requests that it makes sense for."""
    does: ClassVar[str]
    """What was done with each record, for the person who asked: a sentence without its full stop."""
    limits: ClassVar[str]
    """What that does not promise: a sentence."""

    guesses: ClassVar[bool] = False
    """Whether nobody can tell if its targets are right."""
    reads_layers: ClassVar[bool] = False
    """Whether it asks for a read-out of the network's layers."""
    reads_labels: ClassVar[bool] = False
    """Whether it asks what a read-out of retained samples' labels says of records."""
    keeps_balance: ClassVar[bool] = False
    """Whether unseen samples are to be given to each class as often as before."""
    moves: ClassVar[float] = 1.0
    """Share of the layers that move, from the last one back, unless the user names some."""
    each_alone: ClassVar[bool] = False
    """Whether a sample's target depends on that sample alone, so that it can be made when it is needed."""
    batches: ClassVar[int] = 16
    """Steps that a pass over the samples is parted into, as far as batches of 16 to `most` samples allow."""
    most: ClassVar[int | None] = None
    """Samples in one step; None: as suits the step rule."""
    pace: ClassVar[float] = 1.0
    """Times the budget that a step may spend."""
    beside: ClassVar[int] = 0
    """Retained samples that are learned with each record, under the labels that they have."""
    past: ClassVar[float] = 0.5
    """Share of earlier directions in a budgeted step's."""
    max_kl: ClassVar[float | None] = None
    """Retained KL in nats at which a run is stopped, unless the user says otherwise; None: as suits the step rule."""

    @abstractmethod
    def make(self, evidence: Evidence) -> Tensor:
        """Target distributions (n, classes) on the device of the logits."""

    @abstractmethod
    def goal(self, kind: Kind, stop_mass: float) -> Goal:
        """When samples have got there."""

    def to_dict(self) -> dict[str, Any]:
        """Its name and options as plain values."""
        return {"name": self.name, **asdict(self)}


def from_dict(values: Mapping[str, Any]) -> TargetRule:
    """What `to_dict` gave."""
    return type(as_rule(values["name"]))(**{name: value for name, value in values.items() if name != "name"})


def as_rule(targets: Targets | TargetRule) -> TargetRule:
    """The rule of that name, or the rule as it is."""
    if isinstance(targets, TargetRule):
        return targets
    rules = _rules()
    if targets not in rules:
        raise InvalidRequest(f"targets={targets!r}; allowed is {either(TARGETS)}, or a rule for targets")
    return rules[targets]()


def find_targets(targets: Targets | TargetRule, kind: Kind) -> TargetRule:
    """The rule by its name, or as it is; one that does not serve this kind of request is refused."""
    rule = as_rule(targets)
    if kind not in rule.serves:
        fitting = [name for name, other in _rules().items() if kind in other.serves]
        raise InvalidRequest(f"targets={rule.name!r} does not serve {kind}; allowed is {either(fitting)}")
    return rule


def _rules() -> dict[Targets, type[TargetRule]]:
    found = {rule.name: rule for rule in _concrete(TargetRule)}
    return {name: found[name] for name in TARGETS}


def _concrete(rule: type[TargetRule]) -> list[type[TargetRule]]:
    """All rules below this one that have a name of their own."""
    below = [found for sub in rule.__subclasses__() for found in _concrete(sub)]
    return [rule, *below] if "name" in vars(rule) else below
