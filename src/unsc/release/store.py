"""The store: a folder with all that later requests need.

`store.json` holds the hashes of the other files, so that a store is whole or is none. It changes by a release alone,
which writes all files of the store anew (`Contents.save`, without what was deleted) and moves them into its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from unsc.errors import InvalidData, InvalidRequest
from unsc.release.canaries import Canaries
from unsc.release.manifest import Manifest
from unsc.release.markers import Markers
from unsc.release.statistics import Statistics
from unsc.release.strict import Fields
from unsc.storage.files import new_folder, read_json, write_json, writing
from unsc.storage.hashes import is_sha256, sha256_of_file

MANIFEST = "manifest.json"
_KIND, _VERSION = "unsc store", 1
_INDEX, _LEDGER = "store.json", "ledger.sqlite"
_STATISTICS, _CANARIES, _MARKERS = "statistics.safetensors", "canaries.safetensors", "markers.json"
_FILES = (MANIFEST, _STATISTICS, _CANARIES, _MARKERS)
_NAMES = ("generation", "files")


@dataclass(frozen=True)
class Contents:
    """What a store holds."""

    manifest: Manifest
    statistics: Statistics
    canaries: Canaries
    """Retained samples that the user chose to keep; often none."""
    markers: Markers
    """Hashes and scores of what was forgotten."""

    def save(self, folder: Path, *, generation: int = 0) -> None:
        """Write all files of a store into a folder; `generation` counts how often it has changed."""
        self.manifest.save(folder / MANIFEST)
        self.statistics.save(folder / _STATISTICS)
        self.canaries.save(folder / _CANARIES)
        self.markers.save(folder / _MARKERS)
        files = {name: sha256_of_file(folder / name) for name in _FILES}
        write_json(folder / _INDEX, {"kind": _KIND, "version": _VERSION, "generation": generation, "files": files})


def check_new(folder: Path) -> None:
    """Refuse a place for a new store that holds something already."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidRequest(f"{folder} exists already; name a new folder for the store")


class Store:
    """A store that is there, read strictly: what is missing, changed or of another version is an error."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        index = self.folder / _INDEX
        if not index.is_file():
            raise InvalidRequest(f"{self.folder} is no store: it has no {_INDEX}; make one with unsc prepare")
        found = Fields.of(read_json(index), str(index), kind=_KIND, version=_VERSION, names=_NAMES)
        self.generation = found.whole("generation")
        """How often it has changed since it was prepared."""
        self._files: dict[str, str] = found.mapping("files", "SHA-256 each", is_sha256)
        if self._files.keys() != {*_FILES}:
            raise InvalidData(f"{index} names other files than a store has; it is damaged")

    @classmethod
    def create(cls, folder: str | Path, contents: Contents) -> Store:
        """A new store, in a folder that holds nothing yet; it appears once it is whole."""
        folder = Path(folder)
        with writing(folder), new_folder(folder) as part:
            contents.save(part)
        return cls(folder)

    @property
    def ledger(self) -> Path:
        """Where the ledger of requests is, or will be."""
        return self.folder / _LEDGER

    @cached_property
    def manifest(self) -> Manifest:
        return Manifest.load(self._whole(MANIFEST))

    @cached_property
    def statistics(self) -> Statistics:
        return Statistics.load(self._whole(_STATISTICS))

    @cached_property
    def canaries(self) -> Canaries:
        return Canaries.load(self._whole(_CANARIES))

    @cached_property
    def markers(self) -> Markers:
        return Markers.load(self._whole(_MARKERS))

    def _whole(self, name: str) -> Path:
        """The path of a file whose bytes are what they were when it was written."""
        path = self.folder / name
        if not path.is_file():
            raise InvalidData(f"{path} is missing from the store; restore it from a backup, or prepare a new store")
        if sha256_of_file(path) != self._files[name]:
            raise InvalidData(
                f"{path} was changed since it was written, or a release was cut short: unsc forget finishes that. "
                "If it does not help, restore the store from a backup, or prepare a new one"
            )
        return path
