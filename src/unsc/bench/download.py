"""Fetch the data sets' published files and lay them out as `unsc.bench.datasets` reads them.

MD5 sums tell a damaged transfer, and no more than that.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import zlib
from functools import partial
from pathlib import Path
from typing import IO, Any

from unsc.bench.data.shared.image_data import DATA
from unsc.bench.data.shared.source import Published
from unsc.errors import InvalidData
from unsc.extras import need
from unsc.progress import Advance, Progress, quiet
from unsc.storage.files import write_whole


def fetch(name: str, folder: Path, *, base_url: str | None = None, progress: Progress = quiet) -> None:
    """Put data set `name` under `folder`, from its authors' server or a mirror's `base_url`.

    What is there already is left as it is and not checked. A file appears under its name when it is whole.
    """
    source = DATA.find(name).source
    if source is None:
        return  # it has no files
    folder = Path(folder)
    place = folder / source.folder
    wanted = [f for f in source.files if not all((place / n).exists() for n in f.members or (f.name,))]
    with progress(f"fetching {name}, MiB", sum(f.size for f in wanted) >> 20) as advance:
        for file in wanted:
            _fetch_one(file, (base_url or source.base_url).rstrip("/") + "/" + file.name, folder, place, advance)


def _fetch_one(file: Published, url: str, folder: Path, place: Path, advance: Advance) -> None:
    """Download to a folder of its own in the data folder, then move or unpack to the files' place."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetching.") as name:
            got = _download(file, url, Path(name), advance)
            if file.members:
                _unpack(got, place, file.members)
            else:
                place.mkdir(parents=True, exist_ok=True)
                got.chmod(0o644)  # temporary files are their owner's alone
                got.rename(place / file.name)
    except OSError as e:  # connections that fail are among these, and full disks
        raise InvalidData(
            f"cannot fetch {url} ({e}); try again, give a mirror's base_url, or put the files into {place} yourself"
        ) from e


def _download(file: Published, url: str, folder: Path, advance: Advance) -> Path:
    pooch = need("pooch", extra="data")
    log = pooch.get_logger()
    level = log.level
    log.setLevel("WARNING")  # progress is shown by other means
    try:
        bar = _Bytes(advance)
        downloader = pooch.HTTPDownloader(
            progressbar=bar, chunk_size=1 << 16, timeout=60, hooks={"response": _close_refusal}
        )
        got = pooch.retrieve(url, f"md5:{file.md5}", fname=file.name, path=folder, downloader=downloader)
    except OSError:  # some errors of a connection are ValueErrors too
        raise
    except ValueError as e:
        raise InvalidData(
            f"what came from {url} is not the published file (MD5 {file.md5}); try again or give a mirror's base_url"
        ) from e
    finally:
        log.setLevel(level)
    return Path(got)


def _close_refusal(response: Any, *args: Any, **keywords: Any) -> None:
    """pooch does not close the connection of an answer that it gives up on."""
    if response.status_code >= 400:
        response.close()


class _Bytes:
    """What pooch takes for a progress bar: counts bytes, and advances once for every MiB."""

    def __init__(self, advance: Advance) -> None:
        self.total = 0
        self._advance, self._seen = advance, 0

    def update(self, count: int) -> None:
        before, self._seen = self._seen >> 20, self._seen + count
        for _ in range(before, self._seen >> 20):
            self._advance()

    def reset(self) -> None:
        """pooch fills the bar once more at the end; everything was counted by then."""
        self._advance = lambda: None

    def close(self) -> None:
        pass


def _unpack(archive: Path, place: Path, members: tuple[str, ...]) -> None:
    """Copy the plain files `place.name`/member that are missing out of a tar archive; no other path is written."""
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in members:
                if not (place / member).exists():
                    with _plain_file(tar, f"{place.name}/{member}") as content:
                        write_whole(place / member, partial(_copy, content))
    except (tarfile.TarError, EOFError, zlib.error, KeyError) as e:
        raise InvalidData(f"{archive.name} is not the archive that was published ({e}); try again") from e


def _copy(content: IO[bytes], path: Path) -> None:
    with path.open("wb") as out:
        shutil.copyfileobj(content, out)


def _plain_file(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    content = tar.extractfile(name)  # follows links within the archive alone
    if content is None:
        raise tarfile.TarError(f"{name} is no plain file")
    return content
