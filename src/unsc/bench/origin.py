"""Which files an experiment read: their checksums, and what their folder says of them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from unsc.bench.data.shared.image_data import DATA
from unsc.errors import InvalidData


def origin(data: str, folder: Path) -> dict[str, Any]:
    """MD5 sums of the files of a data set by name, and the text of `NAME.txt` in the data folder, None without it.

    Copies that were cropped, compressed or ordered anew are read like the published files, and results must say so:
    that text is the place for it. A data set without files has no checksums.
    """
    source = DATA.find(data).source
    if source is None:
        return {"md5": {}, "note": None}
    names = [name for file in source.files for name in file.members or (file.name,)]
    note = folder / f"{data}.txt"
    try:
        sums = {name: _md5(folder / source.folder / name) for name in names}
        return {"md5": sums, "note": note.read_text().strip() if note.exists() else None}
    except (OSError, UnicodeDecodeError) as e:
        raise InvalidData(f"cannot read the files of {data} ({e}); put them into {folder} again") from e


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.md5(usedforsecurity=False)
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
