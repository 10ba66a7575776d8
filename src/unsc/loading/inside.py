"""Files that a folder of data holds, and none that links lead to elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from unsc.errors import InvalidData


def check_inside(root: Path, path: Path) -> None:
    """Refuse a path that leads out of the folder `root`, by `..` or by a link."""
    if not path.resolve().is_relative_to(root.resolve()):
        raise InvalidData(f"{path} leads out of {root}, to {path.resolve()}; put a copy of the file into the folder")


def files_below(folder: Path, *, root: Path) -> Iterator[Path]:
    """Every regular file below `folder`, in a fixed order; links must stay inside `root`, and lead to files."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        path = Path(entry.path)
        if entry.is_symlink():
            check_inside(root, path)
            if entry.is_dir():  # it may lead in circles
                raise InvalidData(f"{path} is a link to a folder; put the folder itself there")
        if entry.is_dir():
            yield from files_below(path, root=root)
        elif entry.is_file():
            yield path
