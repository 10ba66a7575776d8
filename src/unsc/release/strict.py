"""Values out of JSON that must be what they should be: whatever is missing, strange or of another type is an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from unsc.checks import is_whole
from unsc.errors import InvalidData, listing


@dataclass(frozen=True)
class Fields:
    """The fields of a JSON object, and what it is called in messages."""

    content: Mapping[str, Any]
    where: str

    @classmethod
    def of(cls, content: object, where: str, *, kind: str, version: int, names: tuple[str, ...]) -> Fields:
        """Those of an object that says it is of this `kind` and `version` and has all `names`, and no others."""
        if not isinstance(content, Mapping):
            raise InvalidData(f"{where} holds no JSON object; give what unsc wrote")
        fields = cls(content, where)
        if content.get("kind") != kind:
            raise InvalidData(f"{where} says it is {content.get('kind')!r:.60}, not {kind!r}; give the right file")
        if content.get("version") != version or isinstance(content.get("version"), bool):
            found = content.get("version")
            raise InvalidData(f"{where} is of version {found!r:.20}; this unsc reads version {version}: prepare anew")
        expected = {"kind", "version", *names}
        if missing := sorted(expected - content.keys()):
            raise InvalidData(f"{where} has no {listing(missing)}; it is damaged, or of another version of unsc")
        if strange := sorted(str(name) for name in content.keys() - expected):
            raise InvalidData(f"{where} has {listing(strange)}, which nobody knows; it is of another version of unsc")
        return fields

    def text(self, name: str) -> str:
        return self.checked(name, "text", lambda value: isinstance(value, str))

    def whole(self, name: str, least: int = 0) -> int:
        return self.checked(name, f"a whole number of at least {least}", lambda value: is_whole(value, least))

    def number(self, name: str) -> float:
        """A finite one; JSON's NaN and Infinity are not."""
        found = self.checked(name, "a finite number", is_finite)
        return float(found)

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(self.checked(name, "a list of texts", _are_texts))

    def wholes(self, name: str) -> tuple[int, ...]:
        def are_wholes(value: object) -> bool:
            return isinstance(value, list) and all(is_whole(part, 0) for part in value)

        return tuple(self.checked(name, "a list of whole numbers", are_wholes))

    def mapping(self, name: str, allowed: str, fits: Callable[[Any], bool]) -> dict[str, Any]:
        """An object whose values all fit."""

        def all_fit(value: object) -> bool:
            return isinstance(value, dict) and all(map(fits, value.values()))

        return self.checked(name, f"an object whose values are {allowed}", all_fit)

    def checked(self, name: str, allowed: str, fits: Callable[[Any], bool]) -> Any:
        value = self.content[name]
        if not fits(value):
            raise InvalidData(f"{name} in {self.where} is {value!r:.80}; it must be {allowed}. The file is damaged")
        return value


def is_finite(value: object) -> bool:
    """Whether it is a finite number; JSON as Python reads it has others."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < float("inf")


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)
