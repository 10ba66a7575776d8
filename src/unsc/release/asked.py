"""What a deletion request asks for, read from a file that a stranger may have written.

CSV: the first line names the columns, and every cell that is not empty asks for something. JSON lines: an object in
each line. Names are `class` (a class by name or number), `id` (a record), or a column of the data, such as `user`.

    id                  {"id": "cats/17.png"}
    cats/17.png         {"user": "u-203"}
    cats/18.png         {"class": "cat"}
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import json
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from unsc.errors import InvalidData, InvalidRequest

CLASS, ID = "class", "id"
"""The two names that are not those of columns."""


class User(NamedTuple):
    """All samples that have this value in this column."""

    column: str
    value: str


@dataclass(frozen=True)
class Limits:
    """How large a request may be."""

    bytes: int = 16 << 20
    entries: int = 1_000_000
    characters: int = 1024
    """Of a single id, name or value."""


@dataclass(frozen=True)
class Asked:
    """What is to be forgotten, in the words of whoever asks; each once, in a fixed order."""

    classes: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    users: tuple[User, ...] = ()

    def __post_init__(self) -> None:
        for name in ("classes", "ids", "users"):
            object.__setattr__(self, name, tuple(sorted(set(getattr(self, name)))))
        for text in (*self.classes, *self.ids, *(part for user in self.users for part in user)):
            _check_text(text)
        for id_ in self.ids:
            _check_inside(id_)
        if not (self.classes or self.ids or self.users):
            raise InvalidRequest("the request asks for nothing; name a class, a record's id or a user")
        if self.classes and (self.ids or self.users):
            raise InvalidRequest(
                "the request asks for classes and for records; these are different promises, so write two requests"
            )

    def digest(self, salt: bytes, class_names: Sequence[str] = ()) -> str:
        """The same for requests that ask for the same, by number or by name, in whatever order; HMAC-SHA256, hex."""
        classes = sorted({class_names[k] if (k := number_of(c, class_names)) is not None else c for c in self.classes})
        content = json.dumps([classes, self.ids, self.users])
        return hmac.new(salt, content.encode(), hashlib.sha256).hexdigest()


def number_of(name: str, class_names: Sequence[str]) -> int | None:
    """The number of a class that is given by its name or its number; None if there is none."""
    if name in class_names:
        return class_names.index(name)
    if name.isascii() and name.isdecimal() and len(name) < 10 and int(name) < len(class_names):
        return int(name)
    return None


def read_request(path: Path, limits: Limits | None = None) -> Asked:
    """What the request in a file by the name of `*.csv` or `*.jsonl` asks for."""
    limits = limits or Limits()
    readers = {".csv": _csv, ".jsonl": _json_lines, ".ndjson": _json_lines}
    if path.suffix not in readers:
        raise InvalidRequest(f"{path} is not named like a request; write one as .csv, or as JSON lines in .jsonl")
    text = _text(path, limits)
    return of_pairs(_within(readers[path.suffix](text, path), path, limits))


def either_of(path: Path | None, classes: Sequence[str] | None) -> Asked:
    """A request in a file, or for these classes; one of the two."""
    if (path is None) == (classes is None):
        raise InvalidRequest("say what to forget: either --request FILE, or --classes cat,dog")
    return read_request(path) if path is not None else Asked(classes=tuple(classes or ()))


def of_pairs(pairs: Iterable[tuple[str, str]]) -> Asked:
    """A request out of names (`class`, `id`, or a column's) and values."""
    found: dict[str, list[str]] = {CLASS: [], ID: []}
    users: list[User] = []
    for name, value in pairs:
        if name in found:
            found[name].append(value)
        else:
            users.append(User(name, value))
    return Asked(tuple(found[CLASS]), tuple(found[ID]), tuple(users))


def _text(path: Path, limits: Limits) -> str:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would never end, a device neither
            raise InvalidData(f"{path} is not a file; give one")
        with path.open("rb") as f:
            content = f.read(limits.bytes + 1)
    except (OSError, ValueError) as e:  # a name with a NUL is a ValueError
        raise InvalidData(f"cannot read {path} ({getattr(e, 'strerror', e)}); give a file that is there") from e
    if len(content) > limits.bytes:
        raise InvalidData(f"{path} is larger than {limits.bytes} bytes, the limit of a request; write several")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise InvalidData(f"{path} is not UTF-8 (byte {e.start}); save it as UTF-8") from e


def _csv(text: str, path: Path) -> Iterator[tuple[str, str]]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        head = [name.strip() for name in next(rows, [])]
        if len(set(head)) < len(head) or not all(head):
            raise InvalidData(f"the first line of {path} must name its columns, each once: class, id, or user")
        for row in rows:
            if len(row) > len(head):
                raise InvalidData(f"line {rows.line_num} of {path} has {len(row)} cells under {len(head)} names")
            yield from ((name, value) for name, value in zip(head, row, strict=False) if value)
    except csv.Error as e:
        raise InvalidData(f"line {rows.line_num} of {path} is no CSV ({e}); correct it") from e


def _json_lines(text: str, path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            pairs = json.loads(line, object_pairs_hook=_Pairs)
        except (ValueError, RecursionError) as e:
            raise InvalidData(f"line {number} of {path} is no JSON ({type(e).__name__}); correct it") from e
        if not isinstance(pairs, _Pairs):
            raise InvalidData(f'line {number} of {path} is no object; write one as in {{"id": "17"}}')
        for name, value in pairs:
            if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
                raise InvalidData(f"line {number} of {path} has no text or whole number for {name!r:.60}; give one")
            yield name, _digits(value, number, path)


class _Pairs(list[tuple[str, object]]):
    """A JSON object as it is written, names that come twice included."""


def _digits(value: str | int, line: int, path: Path) -> str:
    try:
        return str(value)
    except ValueError as e:  # Python writes no number of thousands of digits
        raise InvalidData(f"line {line} of {path} has a number of too many digits; write ids as text") from e


def _within(pairs: Iterator[tuple[str, str]], path: Path, limits: Limits) -> Iterator[tuple[str, str]]:
    for i, (name, value) in enumerate(pairs):
        if i >= limits.entries:
            raise InvalidData(f"{path} asks for more than {limits.entries} things, the limit; write several requests")
        if max(len(name), len(value)) > limits.characters:
            raise InvalidData(f"{path} has a text of more than {limits.characters} characters, the limit of an id")
        yield name, value


def _check_text(text: str) -> None:
    strange = next((c for c in text if unicodedata.category(c) in ("Cc", "Cs")), None)
    if strange is not None or not text:
        what = f"the control character {strange!r}" if strange else "nothing in it"
        raise InvalidRequest(f"{text!r:.80} has {what}; ids and names are plain text")


def _check_inside(id_: str) -> None:
    """Ids are looked up and never opened; what looks like a way out of the data's folder is refused all the same."""
    parts = re.split(r"[/\\]", id_)
    if ".." in parts or parts[0] == "":
        raise InvalidRequest(f"the id {id_!r:.80} leads out of the data's folder; give ids as the manifest has them")
