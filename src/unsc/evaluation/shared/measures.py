"""Metrics: what each is called, which way is better, what it needs, and the functions that compute them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, Literal, TypeAlias

from unsc.errors import InvalidRequest, UnscError, unknown
from unsc.evaluation.shared.case import Case

Need: TypeAlias = Literal["original", "retrained", "twin", "references", "shadows", "later", "cost", "retrained_cost"]

_ABOUT_NEEDS = {
    "original": "the model before unlearning (original=...)",
    "retrained": "a model retrained without what was forgotten (retrained=...)",
    "twin": "a second retrained model (twin=...)",
    "references": "reference models trained on random halves of the data, which `unsc compare` trains",
    "shadows": "shadow models, unlearned and retrained, which `unsc compare` makes",
    "later": "a later request by the same method, as `unsc compare` makes it",
    "cost": "the cost of unlearning, which `unsc compare` measures",
    "retrained_cost": "the cost of retraining, which `unsc compare` measures",
}


@dataclass(frozen=True)
class Metric:
    """A number that says something about an unlearned model."""

    name: str
    title: str
    """A few letters for the head of a table."""
    better: Literal["higher", "lower", "reference"]
    """`reference`: the nearer to what retraining gets, the better."""
    unit: str
    """`%`, `points` (of percent), `s`, `MiB`, or nothing for plain numbers."""
    about: str
    """What it measures, in one sentence."""
    needs: tuple[Need, ...] = ()
    group: str = ""
    """The function that computes it; filled in by `measures`."""
    topic: str = ""
    """The file of that function: metrics of one topic share a table."""

    @property
    def direction(self) -> str:
        """Which way is better, for a table."""
        return "as retrained" if self.better == "reference" else self.better


@dataclass(frozen=True)
class Value:
    """A measured number from `n` samples, with a 95 % interval where there is one."""

    value: float
    n: int
    low: float | None = None
    high: float | None = None
    detail: Any = None
    """Whatever a number alone does not say: values by class, by layer. JSON-able."""


@dataclass(frozen=True)
class Measured:
    """What is known of a model: a value for each metric, or the reason why there is none."""

    values: dict[str, Value]
    skipped: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {"values": {name: asdict(v) for name, v in self.values.items()}, "skipped": self.skipped}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Measured:
        return cls({name: Value(**v) for name, v in content["values"].items()}, content["skipped"])


_Function: TypeAlias = Callable[[Case], dict[str, Value]]
_METRICS: dict[str, Metric] = {}
_FUNCTIONS: dict[str, _Function] = {}


def measures(*declared: Metric) -> Callable[[_Function], _Function]:
    """Register a function that computes the `declared` metrics of a case, or those of them it has the means for."""

    def register(function: _Function) -> _Function:
        group = f"{function.__module__}.{function.__qualname__}"
        _FUNCTIONS[group] = function
        for metric in declared:
            _METRICS[metric.name] = replace(metric, group=group, topic=function.__module__.rsplit(".", 1)[-1])
        return function

    return register


def metrics() -> dict[str, Metric]:
    """Every metric by name, those of one topic together."""
    _load()
    topics = [*_ORDER, *(metric.topic for metric in _METRICS.values())]
    return dict(sorted(_METRICS.items(), key=lambda item: topics.index(item[1].topic)))


def measure(case: Case, names: Iterable[str] | None = None) -> Measured:
    """The metrics `names` of a case, or all that it has the means for.

    A named one whose means are missing is an error; one that is not named is skipped with the reason. One that
    fails on this case is skipped with the reason too, and the others are kept.
    """
    known = metrics()
    asked = list(known) if names is None else list(names)
    for name in asked:
        if name not in known:
            raise unknown("metric", name, known)
    skipped: dict[str, str] = {}
    possible = []
    for metric in (known[name] for name in asked):
        lacking = [_ABOUT_NEEDS[need] for need in metric.needs if getattr(case, need) is None]
        if lacking and names is not None:
            raise InvalidRequest(f"the metric {metric.name} needs {' and '.join(lacking)}")
        if lacking:
            skipped[metric.name] = f"needs {' and '.join(lacking)}"
        else:
            possible.append(metric)
    values: dict[str, Value] = {}
    for group in dict.fromkeys(metric.group for metric in possible):
        of_group = [metric.name for metric in possible if metric.group == group]
        try:
            found = _FUNCTIONS[group](case)
        except UnscError as e:
            skipped |= dict.fromkeys(of_group, str(e))
        else:
            values |= {name: found[name] for name in of_group}
    return Measured(values, skipped)


@cache
def _load() -> None:
    package = importlib.import_module("unsc.evaluation")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"unsc.evaluation.{module.name}")


_ORDER = ("utility", "distance", "membership", "representation", "relearning", "rebound", "spent")
"""The topics in the order in which tables show them; others come after."""
