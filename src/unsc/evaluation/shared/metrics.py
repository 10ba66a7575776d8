"""The metrics by name: what each measures, which way is better, what it needs, and the function that computes it.

One function may compute several metrics that share their work:

    @measures(Metric("my_metric", "mine", "lower", "%", "What it measures, in one sentence."))
    def my_metric(case: Case) -> dict[str, Value]:
        ...
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, Literal, TypeAlias

from unsc.errors import InvalidRequest, MissingExtra, UnscError, unknown
from unsc.evaluation.shared.case import ABOUT_NEEDS, Case, Need
from unsc.methods.shared.registry import restored


@dataclass(frozen=True)
class Metric:
    """A number that says something about an unlearned model."""

    name: str
    title: str
    """A few letters for the header of a table."""
    better: Literal["higher", "lower", "reference"]
    """`reference`: the nearer to what retraining gets, the better."""
    unit: str
    """`%`, `points` (percentage points), `s`, `MiB`, or empty for plain numbers."""
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
    """What the number alone does not say: values by class, by layer. Plain values that JSON can hold."""


@dataclass(frozen=True)
class Measured:
    """What was measured of a model: a value for each metric, or the reason why there is none."""

    values: dict[str, Value]
    skipped: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {"values": {name: asdict(v) for name, v in self.values.items()}, "skipped": self.skipped}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Measured:
        return cls({name: Value(**v) for name, v in content["values"].items()}, content["skipped"])


MetricFunction: TypeAlias = Callable[[Case], dict[str, Value]]
_METRICS: dict[str, Metric] = {}
_FUNCTIONS: dict[str, MetricFunction] = {}


def measures(*declared: Metric) -> Callable[[MetricFunction], MetricFunction]:
    """Register a function that computes the `declared` metrics of a case."""

    def register(function: MetricFunction) -> MetricFunction:
        group = f"{function.__module__}.{function.__qualname__}"
        _FUNCTIONS[group] = function
        for metric in declared:
            _METRICS[metric.name] = replace(metric, group=group, topic=function.__module__.rsplit(".", 1)[-1])
        return function

    return register


@contextmanager
def temporary_metrics() -> Iterator[None]:
    """What is registered while this lasts is gone afterwards: for tests, and for trying something out."""
    _load()
    with restored(_METRICS), restored(_FUNCTIONS):
        yield


def metrics() -> dict[str, Metric]:
    """Every metric by name, those of one topic together."""
    _load()
    topics = [*_ORDER, *(metric.topic for metric in _METRICS.values())]
    return dict(sorted(_METRICS.items(), key=lambda item: topics.index(item[1].topic)))


def measure(case: Case, names: Iterable[str] | None = None) -> Measured:
    """The metrics `names` of a case, or all that can be measured.

    A named metric that needs what the case or the installation lacks is an error. One that is not named is skipped,
    with the reason. So is any that fails on this case, and the others are kept.
    """
    known = metrics()
    asked = list(known) if names is None else list(names)
    for name in asked:
        if name not in known:
            raise unknown("metric", name, known)
    skipped: dict[str, str] = {}
    possible = []
    for metric in (known[name] for name in asked):
        lacking = [ABOUT_NEEDS[need] for need in metric.needs if getattr(case, need) is None]
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
            if isinstance(e, MissingExtra) and names is not None:
                raise
            skipped |= dict.fromkeys(of_group, str(e))
        else:
            values |= {name: found[name] for name in of_group}
    return Measured(values, skipped)


@cache
def _load() -> None:
    package = importlib.import_module("unsc.evaluation")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"unsc.evaluation.{module.name}")


_ORDER = (
    "utility",
    "records",
    "distance",
    "membership",
    "representation",
    "relearning",
    "prompting",
    "rebound",
    "spent",
)
"""The topics in the order in which tables show them; others come after."""
