"""The store: a folder with all that later requests need, whole at every moment.

`store.json` names the folder of the present state and the hashes of its files. A new state is written beside the old
one, then `store.json` is replaced, then the old state is removed: what a request deletes is not left behind, and
whoever is killed in between leaves the old store or the new one, never a mixture.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from unsc.errors import InvalidData, InvalidRequest
from unsc.release.canaries import Canaries
from unsc.release.manifest import Manifest
from unsc.release.statistics import Statistics
from unsc.release.strict import Fields
from unsc.storage.files import read_json, write_json, writing
from unsc.storage.hashes import is_sha256, sha256_of_file

_KIND, _VERSION = "unsc store", 1
_INDEX, _STATES, _LEDGER = "store.json", "states", "ledger.sqlite"
_MANIFEST, _STATISTICS, _CANARIES = "manifest.json", "statistics.safetensors", "canaries.safetensors"
_NAMES = ("generation", "state", "files", "released")


@dataclass(frozen=True)
class Released:
    """The weights that were released last."""

    path: str
    sha256: str
    """Of the file's bytes."""


@dataclass(frozen=True)
class Contents:
    """What a store holds."""

    manifest: Manifest
    statistics: Statistics
    canaries: Canaries | None = None
    """Retained samples that the user chose to keep, None if there are none."""


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
        self._state = self.folder / _STATES / _checked_name(found.text("state"), index)
        self.released = _released(found)
        """None as long as nothing was released."""
        if not {_MANIFEST, _STATISTICS} <= self._files.keys() <= {_MANIFEST, _STATISTICS, _CANARIES}:
            raise InvalidData(f"{index} names other files than a store has; it is damaged")
        if self.manifest.gone and self.released is None:
            raise InvalidData(f"{index} says that nothing was released, but classes are gone; it is damaged")

    @property
    def ledger(self) -> Path:
        """Where the ledger of requests is, or will be."""
        return self.folder / _LEDGER

    @cached_property
    def manifest(self) -> Manifest:
        return Manifest.load(self._whole(_MANIFEST))

    @cached_property
    def statistics(self) -> Statistics:
        return Statistics.load(self._whole(_STATISTICS))

    @cached_property
    def canaries(self) -> Canaries | None:
        return Canaries.load(self._whole(_CANARIES)) if _CANARIES in self._files else None

    @classmethod
    def create(cls, folder: str | Path, contents: Contents) -> Store:
        """A new store in a folder that holds nothing yet."""
        folder = Path(folder)
        if folder.exists() and (not folder.is_dir() or any(p.name != _STATES for p in folder.iterdir())):
            raise InvalidRequest(f"{folder} exists already; name a new folder, or remove this one first")
        return _written(folder, contents, generation=0, released=None)

    def advanced(self, contents: Contents, released: Released) -> Store:
        """The store after a release: the new state in the place of the old one, which is removed."""
        return _written(self.folder, contents, generation=self.generation + 1, released=released)

    def clean(self) -> None:
        """Remove what a process that was killed left behind: states that are not the present one."""
        for path in self._state.parent.iterdir():
            if path != self._state:
                shutil.rmtree(path)

    def _whole(self, name: str) -> Path:
        """The path of a file whose bytes are what they were when it was written."""
        path = self._state / name
        if not path.is_file():
            raise InvalidData(f"{path} is missing from the store; restore it from a backup, or prepare a new store")
        if sha256_of_file(path) != self._files[name]:
            raise InvalidData(f"{path} was changed since it was written; restore the store, or prepare a new one")
        return path


def _written(folder: Path, contents: Contents, *, generation: int, released: Released | None) -> Store:
    states = folder / _STATES
    with writing(folder):
        states.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=states, prefix=f"{generation:06d}-"))
        try:
            contents.manifest.save(part / _MANIFEST)
            contents.statistics.save(part / _STATISTICS)
            if contents.canaries is not None:
                contents.canaries.save(part / _CANARIES)
            files = {path.name: sha256_of_file(path) for path in sorted(part.iterdir())}
            for path in (*part.iterdir(), part, states):
                _settle(path)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        index: dict[str, Any] = {"kind": _KIND, "version": _VERSION, "generation": generation, "state": part.name}
        index |= {"files": files, "released": None if released is None else asdict(released)}
        write_json(folder / _INDEX, index)
        _settle(folder)
    store = Store(folder)
    store.clean()
    return store


def _settle(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk: a loss of power must not undo them."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _checked_name(name: str, index: Path) -> str:
    """A state's folder is in the store, whatever the index says."""
    if not re.fullmatch(r"\d{6,}-[A-Za-z0-9_]+", name):
        raise InvalidData(f"{index} names the state {name!r:.80}, which is no name of one; it is damaged")
    return name


def _released(found: Fields) -> Released | None:
    if found.content["released"] is None:
        return None
    values = found.mapping("released", "texts", lambda value: isinstance(value, str))
    if values.keys() != {"path", "sha256"} or not is_sha256(values["sha256"]):
        raise InvalidData(f"released in {found.where} is no path and SHA-256; the file is damaged")
    return Released(**values)
