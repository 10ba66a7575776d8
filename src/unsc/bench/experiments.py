"""The paper's experiments as comparisons: what is forgotten, by which methods, at which cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from unsc.bench.data.shared.image_data import DATA, ImageData
from unsc.bench.scenarios import full_name
from unsc.compare.plan import Config
from unsc.errors import InvalidRequest, unknown
from unsc.methods import find, methods

METRICS = (
    "retain_test_acc",
    "forget_test_acc",
    "retain_train_acc",
    "forget_train_acc",
    "neighbour_harm",
    "js_forget",
    "js_retain",
    "agreement_forget",
    "tug_of_war",
    "mia_confidence",
    "seconds",
)
_SHORT = (("epochs", 2), ("scrub.epochs", 4), ("unsc.max_passes", 2))
"""Settings with which methods take little time on a CPU. SCRUB destroys and repairs in turns: two epochs would end it
before it has repaired."""
_DEFAULTS = tuple((f"unsc.{name}", find("unsc").defaults[name]) for name in find("unsc").search)
"""Of our step: with these, nothing is left to choose."""
_LIMITS: dict[str, dict[str, Any]] = {
    "cpu": {
        "retain_samples": 2000,
        "forget_samples": 1000,
        "judge_samples": 2000,
        "settings": (*_SHORT, ("unsc_paper.max_passes", 8)),
    },
    "long": {
        "retain_samples": 5000,
        "judge_samples": 2000,
        "settings": (*_SHORT, *_DEFAULTS),
        "tune_seconds": 300.0,
    },
    "recipe": {"settings": (*_SHORT, *_DEFAULTS)},
    "paper": {"settings": _DEFAULTS},
}
"""By preset: what methods are given. All but `cpu` give all forgotten samples, our step its defaults, and the paper's
step the paper's settings."""
_ENERGIES = (("energy", 0.97), ("merge_energy", 0.99))
"""Of the paper's step, for every data set."""
_PASSES = 8
"""Passes of the paper's step over one set of classes; over more at once, as many samples in all. The smallest number
has the paper's passes: 25 over half of CIFAR-100 take hours."""
_ALONE = ("retain_test_acc", "forget_test_acc", "mia_confidence")
"""Metrics that need no retrained network."""
_PUBLISHED = "lr=0.04,energy=0.97,merge_energy=0.99,max_passes=25"


@dataclass(frozen=True)
class Row:
    """A row of the paper's ablation."""

    method: str
    """With the settings that the paper states, where it is the paper's."""
    about: str
    given: str | None = None
    """The method where an experiment gives it those settings anyway; None: the same."""

    @property
    def names(self) -> tuple[str, ...]:
        """All that its results may be called."""
        return (self.method,) if self.given is None else (self.method, self.given)


ABLATION = {
    "I": Row("original", "the original"),
    "II": Row("retrain", "retrained"),
    "III": Row("relabel", "random labels"),
    "IV": Row(
        f"unsc_paper[{_PUBLISHED},targets=random]", "random labels in the null space", "unsc_paper[targets=random]"
    ),
    "V": Row(f"unsc_paper[{_PUBLISHED}]", "pseudo-labels in the null space, the paper's method", "unsc_paper"),
    "ours": Row("unsc", "our step"),
}
"""The rows of the paper's ablation."""


@dataclass(frozen=True)
class Experiment:
    """One comparison that is part of a table."""

    table: str
    """`table1`, `ablation`, `multiclass`, `several` or `classes`."""
    config: Config

    @property
    def comparison(self) -> str:
        """The name of the comparison that it is part of: the ablation has rows of table 1, and a few more."""
        return "table1" if self.table == "ablation" else self.name

    @property
    def name(self) -> str:
        """Its folder's name."""
        classes = self.config.classes or ()
        if self.table == "classes":
            return "-".join(map(str, ("class", *classes)))
        return f"{self.table}-{len(classes)}" if self.table in ("multiclass", "several") else self.table

    def of(self, only: Sequence[str]) -> Experiment:
        """The same with some of its methods; one that it has not got is refused."""
        for name in only:
            if name not in self.config.methods:
                raise unknown(f"method of {self.table}", name, self.config.methods)
        return replace(self, config=replace(self.config, methods=tuple(only)))


def experiments(
    table: str, data: str, *, preset: str = "cpu", trials: int = 1, seed: int = 0, only: Sequence[str] = ()
) -> list[Experiment]:
    """The comparisons that make up a table of the paper for a data set, of `only` these methods if some are named."""
    if table not in _TABLES:
        raise unknown("table", table, _TABLES)
    suitable = {name: of_name for name, of_name in DATA.all().items() if of_name.forget and of_name.presets}
    if data not in suitable:
        raise unknown("data set with experiments", data, suitable)
    chosen = suitable[data]
    chosen.preset(preset)  # an unknown one is refused now
    if trials < 1:
        raise InvalidRequest(f"trials={trials}; give at least 1")
    base = Config(
        full_name(data, preset),
        (),
        trials=trials,
        seed=seed,
        tune_tries=8,
        tune_seconds=120.0,
        shadows=0,
        metrics=METRICS,
        classes=tuple(sorted(chosen.forget[: chosen.at_once])),
    )
    base = replace(base, **_LIMITS.get(preset, {}))
    if preset != "cpu":
        own = (*chosen.paper_step.items(), *_ENERGIES)
        base = replace(base, settings=(*base.settings, *((f"unsc_paper.{name}", value) for name, value in own)))
    made = _TABLES[table](chosen, base)
    return [experiment.of(only) for experiment in made] if only else made


def _table1(_: ImageData, base: Config) -> list[Experiment]:
    able = tuple(name for name, method in methods().items() if base.request in method.kinds)
    return [Experiment("table1", replace(base, methods=able))]


def _ablation(_: ImageData, base: Config) -> list[Experiment]:
    given = "unsc_paper.lr" in dict(base.settings)
    chosen = tuple((given and row.given) or row.method for number, row in ABLATION.items() if number != "I")
    return [Experiment("ablation", replace(base, methods=chosen))]


def _multiclass(data: ImageData, base: Config) -> list[Experiment]:
    """Growing numbers of classes, with the default settings of each method."""
    step = data.at_once
    chosen = replace(base, methods=("retrain", "unsc_paper", "unsc", "logit_mask"), tune_tries=0)
    sets = [tuple(sorted(data.forget[:count])) for count in range(step, len(data.forget) + 1, step)]
    return [Experiment("multiclass", _shorter(replace(chosen, classes=classes), step)) for classes in sets]


def _several(data: ImageData, base: Config) -> list[Experiment]:
    """Growing numbers of classes, without networks that are retrained."""
    methods = ("unsc_paper", "unsc", "logit_mask")
    return [
        Experiment("several", replace(grown.config, methods=methods, metrics=_ALONE))
        for grown in _multiclass(data, base)
    ]


def _shorter(config: Config, least: int) -> Config:
    """With all forgotten samples: fewer passes of the paper's step the more classes there are."""
    count = len(config.classes or ())
    if config.forget_samples is not None or not config.settings or count <= least:
        return config
    passes = max(1, round(_PASSES * least / count))
    return replace(config, settings=tuple({**dict(config.settings), "unsc_paper.max_passes": passes}.items()))


def _classes(data: ImageData, base: Config) -> list[Experiment]:
    """Each class by itself, tens of CIFAR-100, with all of its samples; no network is retrained, and nothing tuned."""
    step = data.at_once
    order = data.forget if step > 1 else range(data.num_classes)
    sets = [order[i : i + step] for i in range(0, len(order), step)]
    alone = replace(base, methods=("unsc",), metrics=_ALONE, tune_tries=0, forget_samples=None)
    return [Experiment("classes", replace(alone, classes=tuple(sorted(classes)))) for classes in sets]


_TABLES: dict[str, Callable[[ImageData, Config], list[Experiment]]] = {
    "table1": _table1,
    "ablation": _ablation,
    "multiclass": _multiclass,
    "several": _several,
    "classes": _classes,
}
