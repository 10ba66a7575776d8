"""Every setting of a run, with its default and meaning; saved with each result."""

from __future__ import annotations

import dataclasses
import difflib
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np

from unsc.checks import is_number, is_whole, require
from unsc.duplicates import OnCopies
from unsc.errors import InvalidRequest, either
from unsc.loop import Schedule
from unsc.request import Kind
from unsc.steps import StepRule, step_rules
from unsc.steps.budgeted import BudgetedRule
from unsc.targets import TARGETS, TargetRule, Targets, as_rule
from unsc.targets.rule import from_dict

_RENAMED = {"held_out": "forget_check_share"}
"""Options of 0.2.0 that go by another name."""
PREPARING = ("samples_per_class", "chunk_bytes", "sample_bytes", "num_workers")
"""Options that only matter while samples are read or a guide is made, whatever the step rule."""
_OF_RECORDS = ("least_gain", "copies", "near_copies")
"""Options that only matter for records."""
_OF_CLASSES = ("drop_outputs",)
"""Options that only matter for classes."""


@dataclass(frozen=True)
class Options:
    """What can be set for `forget`, beside what the step rule has. None: a default that suits rule and request."""

    step: StepRule[Any] = field(default_factory=BudgetedRule)
    """How steps are chosen, with the options that are the rule's own. `forget` takes its name as well: `budgeted`
    limits the change of retained predictions, `paper` is the paper's Eq. 12."""
    targets: Targets | TargetRule | None = None
    """Where forgotten samples go. Classes: `soft` (default of budgeted), `hard` (the paper's rule, its default) or
    `random`. Records: `unseen` (default with validation data), `lowered` (without), `relabel` (with new labels), or
    the label that fits best beside their own, `away`, or any but their own, `soft`, `hard` or `random`. A rule with
    options of its own is taken as well."""
    samples_per_class: int = 256
    """Retained samples of each class for its moments."""
    batch_size: int | None = None
    """Forgotten samples a step: by default a sixteenth of them, at least 16 and at most 64 (the paper's step 128); for
    records that get what an unseen network would say half of them, at most 512."""
    max_passes: int | None = None
    """Over the forgotten samples: by default 2, or as many as make 64 steps; 25 for the paper's step."""
    max_kl: float | None = None
    """Retained KL in nats at which a run is stopped and its best state restored: 0.1, 1 for the paper's step, and 0.5
    for `away` and `relabel`."""
    stop_mass: float = 0.01
    """A class is forgotten when its held-out samples give it no more than this mean probability."""
    least_gain: float = 0.2
    """For records: share of the way to the targets that a run must go. One that goes less, and costs held-out data
    something, is undone."""
    copies: OnCopies = "report"
    """What to do about exact copies of records among the data that stays: `report` them, `include` them in what is
    forgotten, or `ignore` them, which spares a pass over the data."""
    near_copies: float | None = None
    """Cosine of features from which a sample counts as a copy too: 0.99 finds slight noise, blur or another brightness,
    not flips or crops. Costs a forward pass over the data."""
    drop_outputs: bool = False
    """For classes: give back a network without their outputs, whose labels are numbered anew (`result.label_map`). By
    default it keeps its shape, with their outputs as low as a network has them that never saw the classes."""
    forget_check_share: float = 0.1
    """Share of a forgotten class's samples that only serve to tell when to stop."""
    min_retained: int = 4
    """Samples that every class which stays must have. With fewer its predictions are hardly watched, and may suffer
    unnoticed; below 2 nothing could be estimated and checked."""
    parameters: tuple[str, ...] | str | None = None
    """Names of the parameters that may be edited, or patterns such as `layer4.*`; by default all that can be confined,
    and of those the deeper half for records that get what an unseen network would say."""
    label_key: str | None = None
    """Where dict samples hold their label; by default `labels`, `label`, `y` or `target`."""
    chunk_bytes: int = 256 << 20
    """Memory for the rows of one layer at a time."""
    sample_bytes: int = 256 << 20
    """Memory for the samples to forget: where they take more, each is read again whenever it is needed. Of an iterable
    data set, which is read once, so much is kept of what goes, and as much of what stays."""
    num_workers: int = 0
    """Processes that read samples, for data sets that have much to do for each, such as decoding images."""
    seed: int = 0

    def __post_init__(self) -> None:
        def check(name: str, allowed: str, ok: bool) -> None:
            require(name, getattr(self, name), allowed, ok)

        check("step", f"{either(step_rules())}, or a step rule", isinstance(self.step, StepRule))
        named = isinstance(self.targets, TargetRule) or self.targets in (None, *TARGETS)
        check("targets", f"{either(TARGETS)}, or a rule for targets", named)
        check("copies", either(get_args(OnCopies)), self.copies in get_args(OnCopies))
        check("drop_outputs", "True or False", isinstance(self.drop_outputs, bool))
        near, gain = self.near_copies, self.least_gain
        check("near_copies", "a cosine above 0 and at most 1", near is None or (is_number(near) and 0 < near <= 1))
        check("least_gain", "a share from 0 to 1", is_number(gain) and 0 <= gain <= 1)
        check("samples_per_class", "a whole number of at least 2", is_whole(self.samples_per_class, 2))
        check("min_retained", "a whole number of at least 2", is_whole(self.min_retained, 2))
        share, mass = self.forget_check_share, self.stop_mass
        check("forget_check_share", "a share from 0 to 0.5", is_number(share) and 0 <= share <= 0.5)
        check("stop_mass", "a probability from 0 to 1", is_number(mass) and 0 <= mass <= 1)
        for name in ("batch_size", "max_passes"):
            value = getattr(self, name)
            check(name, "a whole number of at least 1", value is None or is_whole(value, 1))
        for name in ("chunk_bytes", "sample_bytes"):
            check(name, "a whole number of at least 1", is_whole(getattr(self, name), 1))
        wanted: Any = self.parameters  # whatever a user gives
        by_name = isinstance(wanted, Collection) and all(isinstance(one, str) for one in wanted)
        check("parameters", "names, as in model.named_parameters(), or patterns", wanted is None or by_name)
        check("num_workers", "a whole number of at least 0", is_whole(self.num_workers, 0))
        check("max_kl", "a number above 0", self.max_kl is None or (is_number(self.max_kl) and self.max_kl > 0))
        check("seed", "a whole number of at least 0 and below 2**63", is_whole(self.seed, 0) and self.seed < 2**63)

    @classmethod
    def from_keywords(cls, keywords: dict[str, Any]) -> Options:
        """Options by name, those of the step rule among them; one that does not exist, or does nothing, is an error."""
        plain = {name: x.item() if isinstance(x, np.generic) else x for name, x in keywords.items()}
        given = _with_new_names(plain)
        if isinstance(given.get("targets"), Mapping):  # a rule with its options, as it was saved
            given["targets"] = from_dict(given["targets"])
        rule, known = given.pop("step", BudgetedRule.name), step_rules()
        if isinstance(rule, StepRule):
            _check_names(given, (), rule.name)
            return cls(step=rule, **given)
        require("step", rule, either(known), isinstance(rule, str) and rule in known)
        own = _own(known[rule])
        _check_names(given, own, rule)
        return cls(step=known[rule](**{name: given.pop(name) for name in own if name in given}), **given)

    def check_used(self, kind: Kind) -> None:
        """Refuse options that have no effect for this kind of request."""
        for name in _OF_CLASSES if kind == "records" else _OF_RECORDS:
            if getattr(self, name) != getattr(Options, name):
                raise InvalidRequest(f"the option {name} has no effect for {kind}; leave it out")

    def completed(self, forgotten: int, *, targets: Targets | None = None) -> CompletedOptions:
        """With all defaults filled in, for so many forgotten samples that go to `targets` unless the user says."""
        goes_to = self.targets or targets or self.step.targets
        rule = as_rule(goes_to)
        most = self.step.most_samples if rule.most is None else rule.most
        batch = self.batch_size or max(16, min(most, forgotten // rule.batches))
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values |= {
            "targets": goes_to,
            "batch_size": batch,
            "max_passes": self.max_passes or self.step.passes(-(-forgotten // batch)),
            "max_kl": self.max_kl or rule.max_kl or self.step.max_kl,
        }
        return CompletedOptions(**values)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to be saved as JSON."""
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "step"}
        if isinstance(self.targets, TargetRule):
            own["targets"] = self.targets.to_dict()
        return self.step.to_dict() | own


@dataclass(frozen=True)
class CompletedOptions(Options):
    """Options that leave nothing open."""

    targets: Targets | TargetRule = "soft"
    batch_size: int = 128
    max_passes: int = 2
    max_kl: float = 0.1

    def schedule(self) -> Schedule:
        return Schedule(self.batch_size, self.max_passes, self.max_kl, self.seed)


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
