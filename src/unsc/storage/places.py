"""Whether a folder for results can be written in the end, asked before anything is computed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from unsc.errors import InvalidRequest
from unsc.storage.files import writing


def check_place(folder: Path, *, read: Iterable[str | Path | None] = (), data: Iterable[str | None] = ()) -> None:
    """Refuse a place where no new folder can be put, or where it would do harm.

    `read` is what the work starts from, if that is files: it must not be in a folder that is replaced. `data` is the
    same of data, in which there must be no results either.
    """
    place = _real(folder)
    if os.path.ismount(place) or place in (_real("."), *_real(".").parents):
        raise InvalidRequest(f"{folder} is a disk of its own, or holds the current folder; name a new folder in it")
    data = tuple(data)
    for given in (*read, *data):
        if given is not None and place in (_real(given), *_real(given).parents) and os.path.exists(given):
            raise InvalidRequest(
                f"{given} is in {folder}, which would be replaced; name another folder for the results"
            )
    for given in data:
        if given is not None and _real(given) in place.parents and os.path.exists(given):
            raise InvalidRequest(f"{folder} is in the data {given}, whose folders are classes; name one elsewhere")
    check_writable(folder, place.parent)


def check_writable(folder: Path, place: Path | None = None) -> None:
    """Refuse a folder that cannot be written to, or not be made; `place` is the one that counts, if it is another."""
    real = _real(folder if place is None else place)
    there = next(path for path in (real, *real.parents) if path.exists())
    with writing(folder):
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(there, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _real(path: str | Path) -> Path:
    return Path(os.path.realpath(path))
