"""The paper's experiments as comparisons: what is forgotten, by which methods, at which cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from unsc.bench.data.shared.image_data import DATA, ImageData
from unsc.bench.scenarios import full_name
from unsc.compare.plan import Config
from unsc.errors import InvalidRequest, unknown
from unsc.methods import methods

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
_SHORT = (("epochs", 2), ("unsc.max_passes", 2), ("unsc_paper.max_passes", 8))
"""Settings with which methods take little time on a CPU."""
_ALONE = ("retain_test_acc", "forget_test_acc", "mia_confidence")
"""Metrics that need no retrained network."""
_PUBLISHED = "lr=0.04,energy=0.97,merge_energy=0.99,max_passes=25"
ABLATION = {
    "I": ("original", "the original"),
    "II": ("retrain", "retrained"),
    "III": ("relabel", "random labels"),
    "IV": (f"unsc_paper[{_PUBLISHED},targets=random]", "random labels in the null space"),
    "V": (f"unsc_paper[{_PUBLISHED}]", "pseudo-labels in the null space, the paper's method"),
    "ours": ("unsc", "our step"),
}
"""The rows of the paper's ablation: methods, with the settings it states where it is the paper's, and what they are."""


@dataclass(frozen=True)
class Experiment:
    """One comparison that is part of a table."""

    table: str
    """`table1`, `ablation`, `multiclass` or `classes`."""
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
        return f"multiclass-{len(classes)}" if self.table == "multiclass" else self.table


def experiments(table: str, data: str, *, preset: str = "cpu", trials: int = 1, seed: int = 0) -> list[Experiment]:
    """The comparisons that make up a table of the paper for a data set."""
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
    if preset == "cpu":
        limits = {"retain_samples": 2000, "forget_samples": 1000, "judge_samples": 2000}
        base = replace(base, settings=_SHORT, **limits)
    return _TABLES[table](chosen, base)


def _table1(_: ImageData, base: Config) -> list[Experiment]:
    return [Experiment("table1", replace(base, methods=tuple(methods())))]


def _ablation(_: ImageData, base: Config) -> list[Experiment]:
    chosen = tuple(method for row, (method, _) in ABLATION.items() if row != "I")
    return [Experiment("ablation", replace(base, methods=chosen))]


def _multiclass(data: ImageData, base: Config) -> list[Experiment]:
    """Growing numbers of classes, with the default settings of each method."""
    step = data.at_once
    chosen = replace(base, methods=("retrain", "unsc_paper", "unsc", "logit_mask"), tune_tries=0)
    sets = [tuple(sorted(data.forget[:count])) for count in range(step, len(data.forget) + 1, step)]
    return [Experiment("multiclass", replace(chosen, classes=classes)) for classes in sets]


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
    "classes": _classes,
}
