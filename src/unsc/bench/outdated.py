"""Which results an earlier version made that a later change has outdated."""

from __future__ import annotations

from collections.abc import Iterable

from unsc.bench.results import Result
from unsc.methods.shared.registry import base_name

CHANGED = {"unsc": "0.3.0"}
"""By method: the version in which it began to behave as it does today."""
_TUNING = "0.3.0"
"""The version in which settings began to be chosen by the worse of what is kept and what is forgotten."""


def outdated(result: Result) -> bool:
    """Whether a method has changed since this was measured."""
    changed = CHANGED.get(base_name(result.method))
    return changed is not None and _number(result.version) < _number(changed)


def said_of_versions(found: Iterable[Result]) -> str:
    """Which versions measured these, which rows are of a method as it was, and how settings were chosen, in words."""
    found = list(found)
    names = sorted({result.version for result in found}, key=_number)
    lines = [f"Measured with version {', '.join(names)}."]
    old = sorted({result.version for result in found if outdated(result)}, key=_number)
    if old:
        lines.append(
            f"‡ a row of version {', '.join(old)}: the method has changed since, and would give other numbers."
        )
    if any(result.config["tune_tries"] and _number(result.version) < _number(_TUNING) for result in found):
        lines.append("Settings were chosen by the mean of retained accuracy and forgetting, the score up to 0.2.0.")
    return " ".join(lines)


def _number(version: str) -> tuple[int, ...]:
    """1.10.0 is later than 1.9.0; a version that is not known comes first."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())
