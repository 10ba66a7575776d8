"""Which networks a comparison needs, and with which seeds: all of it follows from the configuration."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import wraps
from typing import Any, Literal, TypeVar, get_args

import torch

from unsc.errors import InvalidRequest
from unsc.request import Request

_MANY = 1000
_OLD_NAMES = {"tune_trials": "tune_tries"}
"""Fields of a configuration as they were called up to 0.2.0; files have them still."""
_T = TypeVar("_T")
_Kind = Literal["classes", "records"]
_SHARE = 0.05
"""Of the training data, if the number of records is not given."""


def current_names(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as a file holds it, with today's names."""
    return {_OLD_NAMES.get(name, name): value for name, value in config.items()}


def _takes_old_names(made: type[_T]) -> type[_T]:
    """The class takes old names as keywords, with a warning that gives the new ones."""
    plain = made.__init__

    @wraps(plain)
    def init(self: _T, *args: object, **keywords: object) -> None:
        for old in _OLD_NAMES.keys() & keywords.keys():
            warnings.warn(f"{old} is now {_OLD_NAMES[old]}", DeprecationWarning, stacklevel=2)
        plain(self, *args, **current_names(keywords))

    made.__init__ = init  # type: ignore[method-assign]
    return made


@_takes_old_names
@dataclass(frozen=True)
class Config:
    """What is compared, and how thoroughly."""

    data: str
    """The scenario's name."""
    methods: tuple[str, ...]
    trials: int = 3
    """Each has its own seeds and forgets another class, or other records."""
    seed: int = 0
    tune_tries: int = 30
    """Settings that are tried for each method, on validation data; 0 takes the published ones."""
    tune_seconds: float = 30.0
    """Time for these tries, for each method."""
    shadows: int = 4
    """Shadow models of each kind for U-LiRA, and twice as many reference models for RMIA; 0 does without them, and
    without a second retrained model."""
    metrics: tuple[str, ...] | None = None
    """By default all of them."""
    classes: tuple[int, ...] | None = None
    """Forget these classes in every trial, instead of another class in each."""
    retain_samples: int | None = None
    """Methods are given at most this many retained samples; retraining is given all."""
    forget_samples: int | None = None
    """Methods are given at most this many forgotten samples."""
    settings: tuple[tuple[str, Any], ...] = ()
    """Settings, by name, that are given instead of tuned in every method that has them; `method.name` is for one method
    alone."""
    judge_samples: int | None = None
    """Metrics are computed on at most this many forgotten and this many retained training samples, and settings are
    chosen on at most this many validation samples of each kind."""
    request: _Kind = "classes"
    """What is forgotten: a class, or records of all classes, drawn at random."""
    records: int | None = None
    """How many records are forgotten in each trial; by default a twentieth of the training data."""
    later: int = 1
    """Classes that are forgotten afterwards, one after the other, to see whether what was forgotten comes back."""

    def __post_init__(self) -> None:
        if self.request not in get_args(_Kind):
            raise InvalidRequest(f"request={self.request!r}; give classes or records")
        if self.request == "records" and self.classes is not None:
            raise InvalidRequest(f"classes={list(self.classes)} with request='records'; give one of the two")
        if self.records is not None and (self.request == "classes" or self.records < 5):
            raise InvalidRequest(f"records={self.records}; give 5 or more, with request='records'")
        for name, least in (("trials", 1), ("tune_tries", 0), ("shadows", 0), ("seed", 0), ("later", 1)):
            if getattr(self, name) < least:
                raise InvalidRequest(f"{name}={getattr(self, name)}; it must be at least {least}")
        if self.shadows == 1:
            raise InvalidRequest("shadows=1; give 0, or at least 2 to know their spread")
        for name, most in (("trials", _MANY), ("shadows", _MANY // 2)):
            if getattr(self, name) > most:  # seeds of different roles are this far apart
                raise InvalidRequest(f"{name}={getattr(self, name)}; it must be at most {most}")
        if not self.tune_seconds > 0:
            raise InvalidRequest(f"tune_seconds={self.tune_seconds}; it must be more than 0")

    @property
    def tune_trials(self) -> int:
        """The old name of `tune_tries`."""
        warnings.warn("tune_trials is now tune_tries", DeprecationWarning, stacklevel=2)
        return self.tune_tries

    def fixed(self) -> dict[str, Any]:
        """What must not change when a comparison is resumed; methods and trials may be added."""
        return {k: v for k, v in asdict(self).items() if k not in ("methods", "trials")}


@dataclass(frozen=True)
class Training:
    """One network to train: on all training data, without some classes or records, or on a random half."""

    seed: int
    without: tuple[int, ...] = ()
    half: bool = False
    records: tuple[int, ...] = ()
    """Positions of training samples that are left out, ascending."""

    @property
    def key(self) -> str:
        if self.half:
            return f"half-{self.seed}"
        if self.records:
            digest = hashlib.sha256(" ".join(map(str, self.records)).encode()).hexdigest()[:8]
            return f"without-{len(self.records)}-records-{digest}-{self.seed}"
        return f"full-{self.seed}" if not self.without else f"without-{'-'.join(map(str, self.without))}-{self.seed}"

    def chosen(self, size: int) -> torch.Tensor:
        """For a half: which of `size` training samples it is trained on, bool (size,)."""
        order = torch.randperm(size, generator=torch.Generator().manual_seed(self.seed))
        return torch.zeros(size, dtype=torch.bool).index_fill(0, order[: size // 2], True)


@dataclass(frozen=True)
class Trial:
    """One request: what to forget, the classes of later requests, and the networks to judge with."""

    number: int
    classes: tuple[int, ...]
    later: tuple[int, ...]
    """A request each, in this order."""
    original: Training
    retrained: Training
    twin: Training | None
    shadow_originals: tuple[Training, ...]
    shadow_retrained: tuple[Training, ...]
    references: tuple[Training, ...]
    records: tuple[int, ...] = ()
    """The records to forget, as positions in the training data, ascending; then there are no classes."""

    def request(self, num_classes: int) -> Request:
        """What is to be forgotten."""
        if self.records:
            return Request.for_records(self.records, num_classes)
        return Request.for_classes(self.classes, num_classes)

    @property
    def trainings(self) -> Iterator[Training]:
        yield from (self.original, self.retrained)
        if self.twin is not None:
            yield self.twin
        yield from (*self.shadow_originals, *self.shadow_retrained, *self.references)


def trials(config: Config, num_classes: int, samples: int = 0) -> list[Trial]:
    """All trials. The seeds of originals, retrained models, shadows and references never coincide.

    For records the number of training `samples` must be known.
    """
    order = _classes(config, num_classes)
    draws = _draws(config, samples) if config.request == "records" else None
    base = 10_000 * config.seed
    shadow_originals = tuple(Training(base + 3000 + i) for i in range(config.shadows))
    references = tuple(Training(base + 4000 + i, half=True) for i in range(2 * config.shadows))
    made = []
    for number in range(config.trials):
        classes, later, records = _asked(config, order, number) if draws is None else ((), (), draws[number])
        made.append(
            Trial(
                number,
                classes,
                later,
                original=Training(base + number),
                retrained=Training(base + 1000 + number, classes, records=records),
                twin=Training(base + 2000 + number, classes, records=records) if config.shadows else None,
                shadow_originals=shadow_originals,
                shadow_retrained=tuple(
                    Training(base + 5000 + i, classes, records=records) for i in range(config.shadows)
                ),
                references=references,
                records=records,
            )
        )
    return made


def tuning(config: Config, num_classes: int) -> tuple[Training, tuple[int, ...]]:
    """The network that settings are tuned on and the classes it forgets.

    No trial has either, unless the classes are given: then it is the first trial's.
    """
    if config.classes is not None:
        return Training(10_000 * config.seed), config.classes
    return Training(10_000 * config.seed + 6000), (_classes(config, num_classes)[-1],)


def tuning_request(config: Config, num_classes: int, samples: int = 0) -> Request:
    """What the network that settings are tuned on forgets; for records, some that no trial has."""
    if config.request == "records":
        return Request.for_records(_draws(config, samples)[-1], num_classes)
    return Request.for_classes(tuning(config, num_classes)[1], num_classes)


def _asked(config: Config, order: list[int], number: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The classes of a trial, those of its later requests, and no records."""
    most = len(order) - 1
    classes = config.classes or (order[number % most],)
    turned = [order[(number + 1 + i) % most] for i in range(most)] + order[-1:]
    others = [k for k in turned if k not in classes]
    if config.later > 1 and config.later >= len(others):
        raise InvalidRequest(f"later={config.later} with {len(order)} classes; at most {len(others) - 1} leave one")
    return classes, tuple(others[: config.later]), ()


def _draws(config: Config, samples: int) -> list[tuple[int, ...]]:
    """Records for each trial, and at the end some to tune on; no two draws share one."""
    each = config.records or round(_SHARE * samples)
    if each < 5 or (config.trials + 1) * each > samples:
        raise InvalidRequest(
            f"{each} records in each of {config.trials} trials, and as many to tune on, cannot be drawn from {samples} "
            "training samples; give 5 records or more, and fewer trials or records than would use the samples up"
        )
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(config.seed)).tolist()
    # From the front for trials and from the end for tuning, so that more trials leave the others as they are.
    starts = [*(each * number for number in range(config.trials)), samples - each]
    return [tuple(sorted(order[start : start + each])) for start in starts]


def _classes(config: Config, num_classes: int) -> list[int]:
    if num_classes < 3:
        raise InvalidRequest(f"{config.data} has {num_classes} classes; a comparison needs at least 3")
    given = set(config.classes or (0,))
    if not given < set(range(num_classes)) or config.classes == ():
        raise InvalidRequest(
            f"classes={list(config.classes or ())}; give at least one of 0 to {num_classes - 1}, and leave at least one"
        )
    return torch.randperm(num_classes, generator=torch.Generator().manual_seed(config.seed)).tolist()
