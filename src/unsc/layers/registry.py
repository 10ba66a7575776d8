"""The kinds of layers by name, and which one a module is of."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from unsc.errors import InvalidRequest, UnsupportedModel
from unsc.layers.call import M
from unsc.layers.kind import Kind

K = TypeVar("K", bound=Kind[Any])

_KINDS: dict[str, Kind[Any]] = {}


def register(kind: type[K]) -> type[K]:
    """Make a kind known, under its name."""
    made = kind()
    for name, other in _KINDS.items():
        taken = set(made.modules()) & set(other.modules())
        if taken and name != made.name:
            names = ", ".join(sorted(t.__name__ for t in taken))
            raise InvalidRequest(f"the kind {name!r} has {names} already; register a kind of other modules")
    _KINDS[made.name] = made
    return kind


def kinds() -> tuple[Kind[Any], ...]:
    """Every kind that is registered."""
    return tuple(_KINDS.values())


@contextmanager
def kinds_restored() -> Generator[None]:
    """Kinds that are registered while this is active are gone afterwards."""
    before = dict(_KINDS)
    try:
        yield
    finally:
        _KINDS.clear()
        _KINDS.update(before)


def kind_of(module: M) -> Kind[M] | None:
    """The kind of the nearest class that `module` inherits from, or None."""
    known = {one: kind for kind in kinds() for one in kind.modules()}
    return next((known[base] for base in type(module).__mro__ if base in known), None)


def needed_kind(module: M) -> Kind[M]:
    """As `kind_of`, for a module that must have one."""
    kind = kind_of(module)
    if kind is None:
        raise UnsupportedModel(
            f"{type(module).__name__} is of no known kind; there are {names_of_kinds()}. Register its kind with "
            "unsc.layers.register"
        )
    return kind


def names_of_kinds() -> str:
    """For messages."""
    return ", ".join(kind.name for kind in kinds())
