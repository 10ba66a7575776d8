"""Write files whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from unsc.errors import InvalidData, InvalidRequest


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a neighbour of `path`, then rename it: a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(handle)
    try:
        write(Path(name))
        os.chmod(name, 0o644)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    text = json.dumps(content, indent=2) + "\n"
    write_whole(path, lambda p: p.write_text(text))


def read_json(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as e:
        raise InvalidData(f"cannot read {path} ({e}); give a folder that unsc saved") from e
    if not isinstance(content, dict):
        raise InvalidData(f"{path} holds no JSON object; give a folder that unsc saved")
    return content


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
    """A safetensors file; `metadata` is kept as JSON in its header."""
    owned = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    header = {"unsc": json.dumps(metadata)}
    write_whole(path, lambda p: save_file(owned, p, metadata=header))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the metadata that `save_tensors` wrote."""
    try:
        with safe_open(path, framework="pt") as f:
            tensors = {name: f.get_tensor(name) for name in f.keys()}  # noqa: SIM118 - not a dict
            metadata = (f.metadata() or {}).get("unsc")
    except (OSError, SafetensorError) as e:
        raise InvalidData(f"cannot read {path} ({e}); give a file that unsc saved") from e
    if metadata is None:
        raise InvalidData(f"{path} was not saved by unsc; give a file that it saved")
    try:
        return tensors, json.loads(metadata)
    except (ValueError, RecursionError) as e:
        raise InvalidData(f"the header of {path} cannot be read ({e}); it is damaged") from e


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Whatever the operating system says while files are written to `path`, in words."""
    try:
        yield
    except (OSError, SafetensorError) as e:
        raise InvalidRequest(f"cannot write to {path}: {_reason(e)}") from e


def _reason(error: OSError | SafetensorError) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "it may not be written to; name another folder, or change its permissions"
    if number in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
        return "the disk is full; make room, or name a folder on another disk"
    if number in (errno.EEXIST, errno.ENOTDIR):
        return "a part of this path is a file, not a folder; name another folder"
    return f"{error}; name another folder"


@contextmanager
def new_folder(path: Path) -> Generator[Path, None, None]:
    """A folder to fill, which becomes `path` once it is whole; `path` must not hold anything, then and now."""
    taken = InvalidRequest(f"{path} exists already; name a new folder, or remove this one first")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise taken
    with _beside(path) as (part, place):
        yield part
        try:
            if place.exists():
                place.rmdir()
            part.rename(place)
        except OSError as e:
            if e.errno in (errno.ENOTEMPTY, errno.EEXIST):  # somebody else was faster
                raise taken from e
            raise


@contextmanager
def replaced_folder(path: Path) -> Generator[Path, None, None]:
    """A folder to fill, which takes the place of `path` once it is whole."""
    with _beside(path) as (part, place):
        yield part
        former = part.with_name("former")
        if place.exists():
            place.rename(former)
        try:
            part.rename(place)
        except OSError:
            if former.exists():
                former.rename(place)
            raise


@contextmanager
def _beside(path: Path) -> Generator[tuple[Path, Path], None, None]:
    """An empty folder on the same disk as `path`, removed at the end, and what `path` is if it is a link."""
    place = Path(os.path.realpath(path))
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as name:
        part = Path(name) / "part"
        part.mkdir()
        yield part, place
