"""What a step rule is: how it prepares a guide from retained data, and how a step is taken under it.

A rule is a frozen dataclass whose fields are its own options. One file in this folder defines one rule, and
`forget(..., step="name", option=value)` finds it by its name; a rule from elsewhere is passed as it is,
`forget(..., step=MyRule(option=value))`.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from torch import Tensor, nn

from unsc.batches import Batch
from unsc.errors import InvalidRequest, listing
from unsc.progress import Progress
from unsc.request import Request
from unsc.targets import Targets
from unsc.task import Task


class Guide(Protocol):
    """What the steps of a run are confined by. It can be made once and used again."""

    def layer_names(self) -> Collection[str]:
        """The layers that it knows."""
        ...

    def check(self, request: Request, labels: Tensor) -> None:
        """Raise if it was not made for this request, whose forgotten samples have these `labels` (n,)."""
        ...


@dataclass(frozen=True)
class Spent:
    """What one step started from and cost, in nats."""

    step: int
    """Which one it was, from 1; a step that finds nothing to learn costs nothing and is not listed."""
    loss: float
    """The forget loss of its batch, before it."""
    predicted: float
    """Change of retained predictions by the step alone."""
    measured: float
    total: float
    """The change since the original, as measured after it."""


class Step(ABC):
    """Changes a network's weights, in place, a batch at a time."""

    takes_parts: ClassVar[bool] = False
    """Whether each rank may be given its part of a batch, which may be empty, and makes the same step of all parts."""
    check_every: ClassVar[int] = 4
    """Steps from one check of what is forgotten to the next."""
    taken_back: int = 0
    """How many tries were taken back because they cost more than allowed."""
    seen: Tensor | None = None
    """What `Watch.quick_look` saw after the last step, for a rule that looks after each."""

    @property
    def spent(self) -> Sequence[Spent]:
        """Of each step that was made, if the rule predicts and measures what its steps cost."""
        return ()

    @property
    def spent_by_layer(self) -> Mapping[str, float]:
        """What all steps of a layer were predicted to cost by themselves, in nats."""
        return {}

    def begin_pass(self, number: int) -> None:  # noqa: B027 (most rules do the same in each pass)
        """Told before the first step of each pass over the forgotten samples, from 0."""

    @abstractmethod
    def __call__(self, batch: Batch, targets: Tensor) -> None:
        """Step towards the target distributions (n, classes) of a batch."""

    def predicted_kl(self, original: nn.Module, edited: nn.Module) -> float:
        """What the guide says retained predictions have changed by, in nats."""
        return 0.0

    def predicted_drift(self, original: nn.Module, edited: nn.Module) -> dict[str, float]:
        """What the guide says of how far each layer's outputs moved on retained rows; empty if it cannot tell."""
        return {}


G = TypeVar("G", bound=Guide)


@dataclass(frozen=True)
class StepRule(ABC, Generic[G]):
    """How steps are chosen."""

    name: ClassVar[str]
    guides: ClassVar[tuple[type, ...]]
    """What kinds of guide its steps can be confined by."""
    preparing: ClassVar[tuple[str, ...]] = ()
    """Options that only matter while the guide is made."""
    most_samples: ClassVar[int] = 128
    """Forgotten samples a step, at most, where a pass takes several steps and the user does not say."""
    any_layout: ClassVar[bool] = False
    """Whether its steps take weights however they lie in memory, so that convolutions may be laid out for speed."""
    in_shards: ClassVar[bool] = False
    """Whether its steps move the rows of a sharded network where they are (`layers.Weights`); if not, every rank works
    on a whole copy."""
    targets: ClassVar[Targets]
    """Where samples of forgotten classes go unless the user says otherwise."""
    record_targets: ClassVar[Targets] = "unseen"
    """Where records go unless the user says otherwise."""
    max_kl: ClassVar[float]
    """Retained KL in nats at which a run is stopped, unless the user says otherwise."""
    settles: ClassVar[bool] = True
    """Whether forgotten outputs are put where a network has them that never saw the classes, once it has forgotten."""

    @abstractmethod
    def passes(self, steps_per_pass: int) -> int:
        """Over the forgotten samples, at most, unless the user says otherwise."""

    @abstractmethod
    def prepare(self, task: Task, progress: Progress) -> G:
        """The guide, from the retained samples of a task."""

    @abstractmethod
    def start(self, model: nn.Module, task: Task, guide: G) -> Step:
        """The step that will change `model`, a copy of the task's original."""

    def to_dict(self) -> dict[str, Any]:
        """Its name and options as plain values."""
        return {"step": self.name, **asdict(self)}


@cache
def step_rules() -> dict[str, type[StepRule[Any]]]:
    """The rules of this folder by name, the default first."""
    package = importlib.import_module("unsc.steps")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"unsc.steps.{module.name}")
    return {rule.name: rule for rule in sorted(_concrete(StepRule), key=lambda rule: rule.name)}


def rule_for(guide: object) -> type[StepRule[Any]]:
    """The rule whose steps a guide confines."""
    for rule in (*step_rules().values(), *_concrete(StepRule)):  # one that was defined since, too
        if isinstance(guide, rule.guides):
            return rule
    kinds = [kind.__name__ for rule in step_rules().values() for kind in rule.guides]
    raise InvalidRequest(f"the guide is a {type(guide).__name__}; allowed are {listing(kinds)}")


def _concrete(rule: type[StepRule[Any]]) -> list[type[StepRule[Any]]]:
    return [found for sub in rule.__subclasses__() for found in ([sub] if "name" in vars(sub) else _concrete(sub))]
