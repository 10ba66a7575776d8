"""Every setting of a run, with its default and meaning; saved with each result."""

from __future__ import annotations

import dataclasses
import difflib
import warnings
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from unsc.checks import is_number, is_whole, require
from unsc.errors import InvalidRequest, either
from unsc.loop import Schedule
from unsc.request import Request
from unsc.steps import StepRule, step_rules
from unsc.steps.budgeted import BudgetedRule
from unsc.targets import TARGETS, Targets

_RENAMED = {"held_out": "forget_check_share"}
"""Options of 0.2.0 that go by another name."""
PREPARING = ("samples_per_class", "chunk_bytes")
"""Options that only matter while a guide is made, whatever the step rule."""


@dataclass(frozen=True)
class Options:
    """What can be set for `forget`, beside what the step rule has. None: a default that suits rule and request."""

    step: StepRule[Any] = field(default_factory=BudgetedRule)
    """How steps are chosen, with the options that are the rule's own. `forget` takes its name as well: `budgeted`
    limits the change of retained predictions, `paper` is the paper's Eq. 12."""
    targets: Targets | None = None
    """Where forgotten samples go: `soft` (default of budgeted), `hard` (the paper's rule, its default) or `random`."""
    samples_per_class: int = 256
    """Retained samples of each class for its moments."""
    batch_size: int | None = None
    """Forgotten samples a step: by default a sixteenth of them, at least 16 and at most 128."""
    max_passes: int | None = None
    """Over the forgotten samples: by default 2, or as many as make 64 steps; 25 for the paper's step."""
    max_kl: float | None = None
    """Retained KL in nats at which a run is stopped and its best state restored: 0.1, or 1 for the paper's step."""
    stop_mass: float = 0.01
    """A class is forgotten when its held-out samples give it no more than this mean probability."""
    forget_check_share: float = 0.1
    """Share of a forgotten class's samples that only serve to tell when to stop."""
    min_retained: int = 4
    """Samples that every class which stays must have. With fewer its predictions are hardly watched, and may suffer
    unnoticed; below 2 nothing could be estimated and checked."""
    parameters: tuple[str, ...] | str | None = None
    """Names of the parameters that may be edited, or patterns such as `layer4.*`; by default all that can be
    confined."""
    label_key: str | None = None
    """Where dict samples hold their label; by default `labels`, `label`, `y` or `target`."""
    chunk_bytes: int = 256 << 20
    """Memory for the rows of one layer at a time."""
    seed: int = 0

    def __post_init__(self) -> None:
        def check(name: str, allowed: str, ok: bool) -> None:
            require(name, getattr(self, name), allowed, ok)

        check("step", f"{either(step_rules())}, or a step rule", isinstance(self.step, StepRule))
        check("targets", either(TARGETS), self.targets in (None, *TARGETS))
        check("samples_per_class", "a whole number of at least 2", is_whole(self.samples_per_class, 2))
        check("min_retained", "a whole number of at least 2", is_whole(self.min_retained, 2))
        share, mass = self.forget_check_share, self.stop_mass
        check("forget_check_share", "a share from 0 to 0.5", is_number(share) and 0 <= share <= 0.5)
        check("stop_mass", "a probability from 0 to 1", is_number(mass) and 0 <= mass <= 1)
        for name in ("batch_size", "max_passes"):
            value = getattr(self, name)
            check(name, "a whole number of at least 1", value is None or is_whole(value, 1))
        check("chunk_bytes", "a whole number of at least 1", is_whole(self.chunk_bytes, 1))
        check("max_kl", "a number above 0", self.max_kl is None or (is_number(self.max_kl) and self.max_kl > 0))
        check("seed", "a whole number of at least 0", is_whole(self.seed, 0))

    @classmethod
    def from_keywords(cls, keywords: dict[str, Any]) -> Options:
        """Options by name, those of the step rule among them; one that does not exist, or does nothing, is an error."""
        given = _with_new_names(keywords)
        rule, known = given.pop("step", BudgetedRule.name), step_rules()
        if isinstance(rule, StepRule):
            _check_names(given, (), rule.name)
            return cls(step=rule, **given)
        require("step", rule, either(known), isinstance(rule, str) and rule in known)
        own = _own(known[rule])
        _check_names(given, own, rule)
        return cls(step=known[rule](**{name: given.pop(name) for name in own if name in given}), **given)

    def completed(self, forgotten: int) -> CompletedOptions:
        """With all defaults filled in, for so many forgotten samples."""
        batch = self.batch_size or max(16, min(128, forgotten // 16))
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values |= {
            "targets": self.targets or self.step.targets,
            "batch_size": batch,
            "max_passes": self.max_passes or self.step.passes(-(-forgotten // batch)),
            "max_kl": self.max_kl or self.step.max_kl,
        }
        return CompletedOptions(**values)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to be saved as JSON."""
        return self.step.to_dict() | {
            f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "step"
        }


@dataclass(frozen=True)
class CompletedOptions(Options):
    """Options that leave nothing open."""

    targets: Targets = "soft"
    batch_size: int = 128
    max_passes: int = 2
    max_kl: float = 0.1

    def schedule(self, request: Request) -> Schedule:
        # A record is done once it leaves its class; a class once its held-out samples hold almost no mass there.
        mass = self.stop_mass if request.kind == "classes" else 1.0
        return Schedule(self.batch_size, self.max_passes, mass, self.max_kl, self.seed)


def _with_new_names(keywords: dict[str, Any]) -> dict[str, Any]:
    for old in _RENAMED.keys() & keywords:
        warnings.warn(f"the option {old} is called {_RENAMED[old]} now", DeprecationWarning, stacklevel=4)
    return {_RENAMED.get(name, name): value for name, value in keywords.items()}


def _check_names(given: Collection[str], own: Collection[str], step: str) -> None:
    """Refuse options that do not exist, and those that are not the step rule's `own`."""
    common = [f.name for f in dataclasses.fields(Options)]
    of_rules = [name for rule in step_rules().values() for name in _own(rule)]
    for name in given:
        if name in common or name in own:
            continue
        if name in of_rules:
            raise InvalidRequest(f"the option {name} has no effect with step={step!r}; leave it out")
        known = [*common, *of_rules]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"options are {', '.join(known)}"
        raise InvalidRequest(f"there is no option {name!r}; {hint}")


def _own(rule: type[StepRule[Any]]) -> list[str]:
    return [f.name for f in dataclasses.fields(rule)]
