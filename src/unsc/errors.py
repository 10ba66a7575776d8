"""Errors a user can act on.

Each message gives the offending value, what is allowed, and what to do next. The command line prints
the message alone; only a bug in this package shows a traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UnscError(Exception):
    """Base of every error that this package raises on purpose."""


class InvalidRequest(UnscError, ValueError):
    """The request cannot be carried out: unknown classes, bad indices, contradictory options."""


class InvalidData(UnscError, ValueError):
    """The data cannot be used: unreadable items, NaN, labels out of range, too few samples."""


class UnsupportedModel(UnscError, TypeError):
    """The model cannot be edited: no supported layer, no logits, NaN weights."""


class EmptyNullSpace(UnscError, ValueError):
    """The paper's step has no free direction in one or more layers."""


class Diverged(UnscError, ArithmeticError):
    """A method diverged: its loss or weights are no longer finite."""


class OutOfMemory(UnscError, MemoryError):
    """Memory ran out, though the work was cut into the smallest pieces."""


class RankFailed(UnscError, RuntimeError):
    """Another rank of a process group failed, or is gone; the message says which, and why."""


class NotForgotten(UnscError, RuntimeError):
    """A run ended without what was asked for, and the caller wanted that to be an error (`strict=True`)."""


class Refused(UnscError):
    """Nothing was wrong with what was asked, and the answer is no; commands end with exit code 3."""


class NotVerified(Refused):
    """A receipt, or what it is of, is not what was signed."""


class NotAllowed(Refused):
    """The policy forbids it."""


class NotForgottenWarning(UserWarning):
    """A run ended without what was asked for; the result says how far it came."""


class HeadOnlyWarning(UserWarning):
    """Only the last layer of a network was edited, so that its features still hold what they held."""


class GuessedTargetsWarning(UserWarning):
    """There is no validation data, so what records should become was guessed."""


class MissingExtra(UnscError, ImportError):
    """A package is missing that only this part of unsc needs; one of the extras brings it."""


def unknown(what: str, name: str, known: Iterable[str]) -> InvalidRequest:
    """The error for a name that is not among the `known`, with the nearest one as a suggestion."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}? There" if near else "there"
    return InvalidRequest(f"there is no {what} {name!r}; {hint} are {listing(known, limit=40)}")


def either(names: Iterable[str]) -> str:
    """`'a', 'b' or 'c'`, for a message."""
    *first, last = map(repr, names)
    return f"{', '.join(first)} or {last}" if first else last


def listing(values: object, *, limit: int = 8) -> str:
    """`values` as a short comma-separated list for a message, with what was left out counted."""
    items = [str(v) for v in values]  # type: ignore[attr-defined]
    shown = ", ".join(items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"
