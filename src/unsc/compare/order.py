"""The order of methods, the same in every table and picture."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from unsc.compare.comparison import ORIGINAL, RETRAIN
from unsc.methods import methods
from unsc.methods.shared.registry import base_name

_REFERENCES = (ORIGINAL, RETRAIN)
_OURS = ("unsc", "unsc_paper")


def controls_for(request: str) -> list[str]:
    """The names of what only looks like forgetting, for a request of this kind.

    A network that is fine-tuned on what stays has seen the records, and nothing was done about that.
    """
    known = [name for name, method in methods().items() if method.control and request in method.kinds]
    return known if request == "classes" else ["finetune", *known]


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
    """Each name once. Settings in brackets do not matter, and a method that is no longer known has its place too."""
    known = methods()
    found = Blocks([], [], [])
    for name in sorted(dict.fromkeys(names), key=_place):
        plain = base_name(name)
        if plain in _REFERENCES:
            found.references.append(name)
        elif plain in known and known[plain].control:
            found.controls.append(name)
        else:
            found.methods.append(name)
    return found


def _place(name: str) -> tuple[int, str]:
    first = (*_REFERENCES, *_OURS)
    plain = base_name(name)
    return (first.index(plain) if plain in first else len(first), name)
