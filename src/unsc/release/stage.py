"""Where a release lies until it is decided: parts beside their final names, which then appear or go as a whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unsc.errors import InvalidData, InvalidRequest, listing
from unsc.release.canonical import canonical, plain
from unsc.release.receipt import FILE as RECEIPT
from unsc.storage.durable import move_into, remove, sync_folder, sync_tree
from unsc.storage.files import writing
from unsc.storage.places import check_writable

MODEL, REPORT, SALT = "model", "report.json", "forgotten.salt"
"""The files of a run's folder, beside the receipt. The salt is for whoever may learn which ids were forgotten."""

_ASIDE = "refused-"


@dataclass(frozen=True)
class Stage:
    """The parts of an entry of this number. Nothing else is written before the ledger says `releasing`."""

    store: Path
    out: Path
    number: int

    @property
    def part(self) -> Path:
        """What becomes the run's folder."""
        return self.out / f".part-{self.number}"

    @property
    def model(self) -> Path:
        return self.part / MODEL

    @property
    def next(self) -> Path:
        """What takes the place of files of the store."""
        return self.store / f".next-{self.number}"

    @property
    def aside(self) -> Path:
        """Where a refused candidate is kept."""
        return self.out / f"{_ASIDE}{self.number}"

    def open(self) -> None:
        """Empty folders for the parts."""
        with writing(self.out):
            self.out.mkdir(parents=True, exist_ok=True)
            self.part.mkdir()
            self.model.mkdir()
            self.next.mkdir()

    def fill(self, save: Callable[[Path], object], folder: Path) -> None:
        with writing(folder):
            save(folder)
        if not any(folder.iterdir()):
            raise InvalidData(f"nothing was written to {folder}; a release needs files")

    def write(self, name: str, content: bytes, *, mode: int = 0o644) -> None:
        """A file of the run's folder."""
        with writing(self.out):
            handle = os.open(self.part / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(handle, "wb") as f:
                f.write(content)

    def report(self, content: Mapping[str, Any]) -> None:
        self.write(REPORT, canonical(plain(content)))

    def sync(self) -> None:
        """All parts are on the disk when this returns."""
        with writing(self.out):
            for folder in (self.part, self.next, self.out, self.store):
                (sync_tree if folder in (self.part, self.next) else sync_folder)(folder)

    def keep_aside(self) -> None:
        """The candidate and its report, under a name that nobody takes for a release."""
        with writing(self.out):
            remove(self.next)
            os.replace(self.part, self.aside)
            sync_folder(self.out)

    def publish(self) -> None:
        """Let everything appear under its final name, the model last. Cut short, the same call does the rest."""
        with writing(self.out):
            move_into(self.part, self.out, last=(RECEIPT, MODEL))
            missing = [name for name in (REPORT, RECEIPT, MODEL) if not (self.out / name).exists()]
            if missing:
                raise InvalidData(
                    f"{self.out} has no {listing(missing)}, which was written for request {self.number} before it was "
                    "cut short; put the folder back where it was"
                )
            move_into(self.next, self.store)
            remove(self.part)
            remove(self.next)

    def discard(self) -> None:
        """Remove all parts, and the folder if nothing else is in it."""
        with writing(self.out):
            for path in (self.part, self.next, self.aside):
                remove(path)
            with suppress(OSError):
                self.out.rmdir()


def check_free(out: Path, store: Path) -> None:
    """Refuse a folder that holds something other than refused candidates, or that is a part of the store."""
    if store.resolve() in (out.resolve(), *out.resolve().parents) or out.resolve() in store.resolve().parents:
        raise InvalidRequest(f"{out} and the store {store} are inside each other; name another folder for the results")
    if out.exists() and not out.is_dir():
        raise InvalidRequest(f"{out} is a file; name a folder for the results")
    check_writable(out)
    names = sorted(path.name for path in out.iterdir()) if out.exists() else []
    if any(not name.startswith(_ASIDE) for name in names):
        raise InvalidRequest(f"{out} holds {listing(names)} already; name a new folder for the results")
