"""What a candidate must reach to be released: limits from a TOML file, and a verdict on each."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from unsc.checks import is_number
from unsc.errors import InvalidData, InvalidRequest, listing, unknown
from unsc.extras import need

Kind: TypeAlias = Literal["classes", "records"]

_LARGEST = 64 << 10
"""Bytes of a policy file."""


@dataclass(frozen=True)
class Figure:
    """A number, how sure it is, and how it was found."""

    value: float
    low: float | None = None
    """With `high`, its 95 % interval; None where there is none."""
    high: float | None = None
    n: int | None = None
    """Samples that it was measured on."""
    source: Literal["measured", "predicted"] = "measured"
    """`predicted`: by the guide, since no retained sample was at hand; for records, from targets that were guessed,
    since no validation data was."""


@dataclass(frozen=True)
class Check:
    """A limit that a figure may not exceed."""

    name: str
    unit: str
    limit: float
    """By default."""
    kinds: tuple[Kind, ...]
    """Of requests that it is about."""
    about: str
    advice: str
    chance: float | None = None
    """What it is where there is nothing to find: a figure whose interval holds this is within the limit."""


_MORE = "allow more passes or a larger budget"
_LESS = "take a smaller budget, or ask for less at a time"
_COPIES = "ask for them too, by the ids that are listed, or allow them (copies_left = inf)"
CHECKS = (
    Check("forget_acc", "%", 1.0, ("classes",), "samples of forgotten classes that are classified as before", _MORE),
    Check("record_distance", "nats", 0.02, ("records",), "how far records are from what they should be", _MORE),
    Check(
        "attack",
        "AUC",
        0.6,
        ("classes", "records"),
        "how well an attack tells the forgotten from the unseen",
        _MORE,
        chance=0.5,
    ),
    Check(
        "revived", "%", 1.0, ("classes", "records"), "what earlier requests made forgotten and is known again", _LESS
    ),
    Check("copies_left", "samples", 0.0, ("records",), "copies of the records that stay", _COPIES),
    Check("retain_drop", "points", 1.0, ("classes", "records"), "accuracy that retained samples lost", _LESS),
    Check("worst_class_drop", "points", 5.0, ("classes", "records"), "the same of the class that lost most", _LESS),
    Check("retained_kl", "nats", 0.05, ("classes", "records"), "change of retained predictions", _LESS),
)
"""Everything that a gate looks at. Lower is better for all."""

LIMITS = {check.name: check.limit for check in CHECKS}
_GATE = (*LIMITS, "margin", "required")


@dataclass(frozen=True)
class Verdict:
    """Whether a figure is within its limit."""

    check: str
    unit: str
    measured: float | None
    """None: there was no way to find it."""
    source: str
    limit: float
    """What it was held against: that of the policy, or a part of it for a predicted figure."""
    passed: bool
    advice: str
    """What is wrong, by how much, and what to try; empty if it passed."""


@dataclass(frozen=True)
class Policy:
    """Limits by the name of a check; `inf` is none."""

    limits: Mapping[str, float] = field(default_factory=lambda: dict(LIMITS))
    margin: float = 2.0
    """A predicted figure must stay below its limit divided by this: nobody measured it."""
    required: tuple[str, ...] = ("forget_acc", "record_distance", "retained_kl")
    """Checks that a candidate fails if there is no figure for them."""
    rollback: bool = False
    """Whether a release may be taken back. That brings the influence of deleted data back."""

    @classmethod
    def load(cls, path: Path) -> Policy:
        """The policy in a TOML file; what it leaves out has its default."""
        return cls.from_dict(_toml(path), str(path))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], where: str = "the policy") -> Policy:
        """A policy as tables `gate` and `rollback`; names that nobody knows are errors."""
        gate = _table(content, "gate", where)
        rollback = _table(content, "rollback", where)
        _known("table", content, ("gate", "rollback"))
        _known("setting of [gate]", gate, _GATE)
        _known("setting of [rollback]", rollback, ("allowed",))
        allowed = rollback.get("allowed", False)
        if not isinstance(allowed, bool):
            raise InvalidRequest(f"allowed = {allowed!r:.60} in [rollback] of {where}; it is true or false")
        return cls(
            limits={name: _limit(name, gate.get(name, limit), where) for name, limit in LIMITS.items()},
            margin=_margin(gate.get("margin", 2.0), where),
            required=_required(gate.get("required", list(cls.required)), where),
            rollback=allowed,
        )

    def to_dict(self) -> dict[str, Any]:
        """What `from_dict` reads; limits that are none are left out of JSON's numbers, as text."""
        limits = {name: limit if math.isfinite(limit) else "inf" for name, limit in self.limits.items()}
        gate = {**limits, "margin": self.margin, "required": list(self.required)}
        return {"gate": gate, "rollback": {"allowed": self.rollback}}

    def judge(self, measured: Mapping[str, Figure], kind: Kind) -> tuple[Verdict, ...]:
        """A verdict on every check that is about this kind of request and has a figure, or should have one."""
        checks = [check for check in CHECKS if kind in check.kinds and math.isfinite(self.limits[check.name])]
        return tuple(
            self._verdict(check, measured.get(check.name))
            for check in checks
            if check.name in measured or check.name in self.required
        )

    def _verdict(self, check: Check, figure: Figure | None) -> Verdict:
        limit = self.limits[check.name]
        if figure is None:
            said = f"{check.about}: there is no figure; give validation data, or keep canaries when you prepare"
            return Verdict(check.name, check.unit, None, "none", limit, False, said)
        if figure.source == "predicted":
            limit /= self.margin
        by_chance = check.chance is not None and figure.low is not None and figure.low <= check.chance
        passed = figure.value <= limit or by_chance  # NaN is not
        said = "" if passed else _over(check, figure, limit)
        return Verdict(check.name, check.unit, figure.value, figure.source, limit, passed, said)


def figures_as_dict(measured: Mapping[str, Figure]) -> dict[str, dict[str, Any]]:
    """Figures as plain values, by name."""
    return {name: asdict(figure) for name, figure in measured.items()}


def _over(check: Check, figure: Figure, limit: float) -> str:
    how = "measured" if figure.source == "measured" else "predicted, so that the limit is a part of the policy's"
    return (
        f"{check.about}: {figure.value:.4g} {check.unit} ({how}), at most {limit:.4g} is allowed, "
        f"{figure.value - limit:.4g} too much; {check.advice}"
    )


def _toml(path: Path) -> dict[str, Any]:
    parser = need("tomllib" if sys.version_info >= (3, 11) else "tomli", extra="release")
    try:
        with path.open("rb") as f:
            content = f.read(_LARGEST + 1)
    except (OSError, ValueError) as e:
        raise InvalidData(f"cannot read {path} ({getattr(e, 'strerror', e)}); give a policy that is there") from e
    if len(content) > _LARGEST:
        raise InvalidData(f"{path} is larger than {_LARGEST} bytes, the limit of a policy; give a policy")
    try:
        return parser.loads(content.decode())
    except (ValueError, RecursionError) as e:  # TOML's error and that of UTF-8 are both of the first kind
        raise InvalidData(f"{path} is no TOML ({e}); correct it") from e


def _table(content: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    found = content.get(name, {})
    if not isinstance(found, Mapping):
        raise InvalidRequest(f"{name} in {where} is {found!r:.60}; it must be a table: [{name}]")
    return found


def _known(what: str, content: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in content:
        if name not in names:
            raise unknown(what, name, names)


def _limit(name: str, value: object, where: str) -> float:
    if value == "inf":
        return math.inf
    if not is_number(value) or not value >= 0:
        raise InvalidRequest(
            f"{name} = {value!r:.60} in {where}; it must be a number of at least 0, or inf for no limit"
        )
    return float(min(value, sys.float_info.max)) if value != math.inf else math.inf


def _margin(value: object, where: str) -> float:
    if not is_number(value) or not 1 <= value < 1e6:
        raise InvalidRequest(f"margin = {value!r:.60} in {where}; it must be a number of at least 1")
    return float(value)


def _required(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InvalidRequest(f"required = {value!r:.60} in {where}; it must be a list of checks: {listing(LIMITS)}")
    for name in value:
        if name not in LIMITS:
            raise unknown("check", name, LIMITS)
    return tuple(sorted(set(value)))
