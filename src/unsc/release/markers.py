"""Markers: hashes and scores of what was forgotten, to notice if a later release brings it back. Never samples.

A sample's marker is a hash of its fingerprint under a salt of the store, the class that was removed for it, and the
probability of that class before and after it was forgotten. Whoever still has the sample can see from it whether the
network knows it again; whoever has only the store learns that a sample was forgotten, and no more.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from unsc.release.strict import Fields, is_finite
from unsc.storage.files import read_json, write_json
from unsc.storage.hashes import is_sha256

_KIND, _VERSION = "unsc markers", 1
Of: TypeAlias = Literal["class", "record"]

_MOST = 256
"""Markers of one request."""
_SHOWS = 0.05
"""What the probability must have fallen by for its return to be told from rounding."""


class Marker(NamedTuple):
    """What is kept of a forgotten sample."""

    digest: str
    """HMAC-SHA256 of its fingerprint, hex."""
    of: Of
    """Whether its class went, or the record alone."""
    label: int
    before: float
    """Probability of its label, 0 to 1, in the network before the request."""
    after: float
    """The same in the network that was released for it."""

    def shows(self) -> bool:
        """Whether its return could be told."""
        return self.of == "class" or self.before - self.after >= _SHOWS

    def revived(self, now: float) -> bool:
        """Whether a record of which the network says `now` is nearer to what it was than to what it became."""
        return now - self.after > (self.before - self.after) / 2


@dataclass(frozen=True)
class Markers:
    """All that a store keeps of forgotten samples."""

    salt: str
    entries: tuple[Marker, ...]

    @classmethod
    def none(cls) -> Markers:
        return cls(secrets.token_hex(32), ())

    def __len__(self) -> int:
        return len(self.entries)

    def digest(self, fingerprint: str) -> str:
        """What a marker says in the place of a sample's SHA-256."""
        return hmac.new(self.salt.encode(), fingerprint.encode(), hashlib.sha256).hexdigest()

    def add(self, of: Of, samples: Iterable[tuple[str, int, float, float]]) -> Markers:
        """With some of the samples of a request: fingerprint, label, and the probabilities before and after."""
        made = sorted(Marker(self.digest(print_), of, *rest) for print_, *rest in samples)  # type: ignore[arg-type]
        return replace(self, entries=(*self.entries, *made[:_MOST]))  # in an order that has nothing to do with them

    def among(self, fingerprints: Sequence[str]) -> list[tuple[int, Marker]]:
        """Where forgotten samples are among samples with these fingerprints, and their markers."""
        known = {marker.digest: marker for marker in self.entries}
        found = [(i, known.get(self.digest(one))) for i, one in enumerate(fingerprints)]
        return [(i, marker) for i, marker in found if marker is not None]

    def save(self, path: Path) -> None:
        """Write a JSON file that `Markers.load` reads."""
        write_json(path, {"kind": _KIND, "version": _VERSION, "salt": self.salt, "entries": self.entries})

    @classmethod
    def load(cls, path: Path) -> Markers:
        found = Fields.of(read_json(path), str(path), kind=_KIND, version=_VERSION, names=("salt", "entries"))
        entries = found.checked("entries", "a list of markers", _are_markers)
        return cls(found.text("salt"), tuple(Marker(*values) for values in entries))


def _are_markers(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_marker, value))


def _is_marker(value: object) -> bool:
    if not isinstance(value, list) or len(value) != len(Marker._fields):
        return False
    digest, of, label, *scores = value
    whole = isinstance(label, int) and not isinstance(label, bool) and label >= 0
    return is_sha256(digest) and of in ("class", "record") and whole and all(map(is_finite, scores))
