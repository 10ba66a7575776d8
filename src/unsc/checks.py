"""Checks of single values that users give."""

from __future__ import annotations

from typing import TypeGuard

from unsc.errors import InvalidRequest


def require(name: str, value: object, allowed: str, ok: bool) -> None:
    """Raise unless `ok`: the error names the option, its value and what is allowed."""
    if not ok:
        raise InvalidRequest(f"{name}={value!r:.200}; allowed is {allowed}")


def is_whole(value: object, least: int) -> TypeGuard[int]:
    """Whether it is a whole number, and not below `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
