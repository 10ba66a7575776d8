"""The order of methods, the same in every table and picture."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from unsc.compare.cells import ORIGINAL, RETRAIN
from unsc.methods import methods

_REFERENCES = (ORIGINAL, RETRAIN)
_OURS = ("unsc", "unsc_paper")


class Blocks(NamedTuple):
    """Names of methods, in the order in which the blocks stand below each other."""

    references: list[str]
    """What the others are measured by."""
    methods: list[str]
    """Ours first, the others by name."""
    controls: list[str]
    """Those that forget nothing."""

    @property
    def all(self) -> list[str]:
        return [name for block in self for name in block]


def blocks(names: Iterable[str]) -> Blocks:
    """Each name once; settings in brackets do not matter, nor that a method is not known any more."""
    known = methods()
    found = Blocks([], [], [])
    for name in sorted(dict.fromkeys(names), key=_place):
        plain = _plain(name)
        if plain in _REFERENCES:
            found.references.append(name)
        elif plain in known and known[plain].control:
            found.controls.append(name)
        else:
            found.methods.append(name)
    return found


def _place(name: str) -> tuple[int, str]:
    first = (*_REFERENCES, *_OURS)
    return (first.index(_plain(name)) if _plain(name) in first else len(first), name)


def _plain(name: str) -> str:
    return name.partition("[")[0]
