"""Files that survive a power cut: what was written is on the disk when these return."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def sync_tree(folder: Path) -> None:
    """Every file and folder in `folder`, and itself."""
    for path in sorted(folder.rglob("*")):
        _sync(path)
    _sync(folder)


def sync_folder(folder: Path) -> None:
    """The names in a folder: what was created, renamed or removed there."""
    _sync(folder)


def move_into(part: Path, folder: Path, *, last: tuple[str, ...] = ()) -> None:
    """Rename what is in `part` into `folder` on the same disk, where it takes the place of files of the same names.

    One after another, those named in `last` at the end and in that order. Cut short, the same call does the rest.
    """
    names = {path.name for path in part.iterdir()} if part.is_dir() else set[str]()
    for name in (*sorted(names - {*last}), *(name for name in last if name in names)):
        os.replace(part / name, folder / name)
    if names:
        _sync(folder)


def remove(path: Path) -> None:
    """A file, a link (not what it leads to), or a folder with all that is in it; nothing if there is none."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def _sync(path: Path) -> None:
    if os.name != "posix" and path.is_dir():  # other systems cannot open folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
