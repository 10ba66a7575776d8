"""The ledger of a store: every request, how far it got, and what was released for it. SQLite beside the store.

States: `working`, then `releasing` or `refused`, then `released`. What is written to the ledger decides: a request
that is `releasing` has passed the gate and its files are whole, so whoever comes next finishes it; one that is
`working` left nothing but parts, which are removed. `rolled back` is a release that was taken back by a later entry.

No sample, no id and no name of a user is in it: requests are known by their digest, under a salt of the ledger.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from unsc.errors import InvalidData, InvalidRequest, UnscError

State: TypeAlias = Literal["working", "releasing", "released", "refused", "rolled back", "dropped"]
"""`dropped`: cut short before it was decided, and nothing of it is left."""

FILE, _LOCK = "ledger.sqlite", "lock.sqlite"
_VERSION = 1
_TABLES = """
CREATE TABLE about (version INTEGER NOT NULL, salt BLOB NOT NULL, chain TEXT NOT NULL);
CREATE TABLE entries (
    number INTEGER PRIMARY KEY AUTOINCREMENT, digest TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL,
    parent TEXT NOT NULL, child TEXT, receipt TEXT, out TEXT NOT NULL,
    began REAL NOT NULL, changed REAL NOT NULL, result TEXT NOT NULL
);
CREATE INDEX by_digest ON entries (digest);
CREATE TABLE events (entry INTEGER NOT NULL REFERENCES entries (number), state TEXT NOT NULL, at REAL NOT NULL);
"""
_COLUMNS = "number, digest, kind, state, parent, child, receipt, out, began, changed, result"


@dataclass(frozen=True)
class Entry:
    """A request, or a rollback, in the ledger. Times are seconds since 1970."""

    number: int
    digest: str
    kind: str
    """`classes`, `records` or `rollback`."""
    state: State
    parent: str
    """SHA-256 of the weights that it starts from."""
    child: str | None
    """SHA-256 of the weights that it made; None until there are any."""
    receipt: str | None
    """SHA-256 of its receipt; None unless it is released."""
    out: str
    """The folder that its results go to."""
    began: float
    changed: float
    result: Mapping[str, Any]
    """What was measured and judged, and what is needed to finish it."""

    @property
    def seconds(self) -> float:
        """From its beginning to its last change."""
        return self.changed - self.began


class StoreIsBusy(InvalidRequest):
    """Another process holds the store."""


class Ledger:
    """An open ledger, of which this process is the only writer."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self.path = connection, path
        with _said(path):
            version, self.salt, self.chain = connection.execute("SELECT version, salt, chain FROM about").fetchone()
        if version != _VERSION:
            raise InvalidData(f"{path} is of version {version}; this unsc reads version {_VERSION}")

    def entries(self) -> tuple[Entry, ...]:
        """All, in the order in which they began."""
        return self._select("ORDER BY number")

    def entry(self, number: int) -> Entry:
        found = self._select("WHERE number = ?", number) if number < 1 << 63 else ()  # SQLite has no larger ones
        if not found:
            raise InvalidRequest(f"the ledger has no request {number}; `unsc log` lists what it has")
        return found[0]

    def latest(self, digest: str) -> Entry | None:
        """The last entry of a request; None if it was never asked."""
        return next(iter(self._select("WHERE digest = ? ORDER BY number DESC LIMIT 1", digest)), None)

    def unfinished(self) -> Entry | None:
        """What a process that was ended left behind: at most one, since there is one writer."""
        return next(iter(self._select("WHERE state IN ('working', 'releasing')")), None)

    def in_force(self) -> Entry | None:
        """The entry whose weights are the released ones; None before the first release."""
        return next(iter(self._select("WHERE state = 'released' ORDER BY number DESC LIMIT 1")), None)

    def receipts(self) -> tuple[str, ...]:
        """Hashes of all receipts, in the order of their chain."""
        with _said(self.path):
            asked = "SELECT receipt FROM entries WHERE state IN ('released', 'rolled back') ORDER BY number"
            return tuple(receipt for (receipt,) in self._connection.execute(asked))

    def timings(self, number: int) -> tuple[tuple[State, float], ...]:
        """When an entry came into each of its states."""
        with _said(self.path):
            rows = self._connection.execute("SELECT state, at FROM events WHERE entry = ? ORDER BY rowid", (number,))
            return tuple((state, float(at)) for state, at in rows)

    def begin(self, digest: str, kind: str, parent: str, out: Path) -> Entry:
        """A new entry, in the state `working`."""
        now = time.time()
        values = (digest, kind, "working", parent, str(out), now, now, "{}")
        with self._transaction() as connection:
            asked = "INSERT INTO entries (digest, kind, state, parent, out, began, changed, result)"
            number = connection.execute(f"{asked} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values).lastrowid
            connection.execute("INSERT INTO events VALUES (?, 'working', ?)", (number, now))
        return self.entry(int(number or 0))

    def move(
        self,
        entry: Entry,
        state: State,
        *,
        child: str | None = None,
        receipt: str | None = None,
        result: Mapping[str, Any] | None = None,
        taken_back: int | None = None,
    ) -> Entry:
        """An entry in its next state; `taken_back` is the number of the release that it undoes, in the same moment."""
        now = time.time()
        facts = (state, child or entry.child, receipt or entry.receipt, now)
        told = json.dumps(entry.result if result is None else dict(result), sort_keys=True, allow_nan=False)
        with self._transaction() as connection:
            connection.execute(
                "UPDATE entries SET state = ?, child = ?, receipt = ?, changed = ?, result = ? WHERE number = ?",
                (*facts, told, entry.number),
            )
            connection.execute("INSERT INTO events VALUES (?, ?, ?)", (entry.number, state, now))
            if taken_back is not None:
                connection.execute("UPDATE entries SET state = 'rolled back' WHERE number = ?", (taken_back,))
                connection.execute("INSERT INTO events VALUES (?, 'rolled back', ?)", (taken_back, now))
        return self.entry(entry.number)

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        with _said(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite may have done so by itself
                    self._connection.execute("ROLLBACK")
                raise

    def _select(self, condition: str, *values: object) -> tuple[Entry, ...]:
        with _said(self.path):
            rows = self._connection.execute(f"SELECT {_COLUMNS} FROM entries {condition}", values).fetchall()
        return tuple(_entry(row, self.path) for row in rows)


@contextmanager
def open_ledger(store: Path, *, wait: float = 5.0) -> Generator[Ledger]:
    """The ledger of a store, held by this process alone; another one is waited for, so many seconds at most."""
    if not store.is_dir():
        raise InvalidRequest(f"there is no store {store}; make one with `unsc prepare`")
    with _alone(store, wait):
        path = store / FILE
        with closing(_connect(path)) as connection:
            yield Ledger(connection, path)


@contextmanager
def read_ledger(store: Path) -> Generator[Ledger]:
    """The ledger of a store to read from, whatever another process does with it."""
    path = store / FILE
    if not path.is_file():
        raise InvalidRequest(f"{store} has no ledger; nothing was asked of this store yet, or it is no store")
    with closing(_connect(path)) as connection:
        yield Ledger(connection, path)


@contextmanager
def _alone(store: Path, wait: float) -> Generator[None]:
    """Hold the store. The lock is one of SQLite's, which goes with the process however that ends."""
    path = store / _LOCK
    with _said(path):
        lock = sqlite3.connect(path, timeout=wait, isolation_level=None)
    with closing(lock):
        try:
            with _said(path):
                lock.execute("BEGIN EXCLUSIVE")
        except StoreIsBusy as e:
            raise StoreIsBusy(
                f"another process is working on {store}; it was waited for {wait:g} s. Try again when it has ended"
            ) from e
        yield


def _connect(path: Path) -> sqlite3.Connection:
    with _said(path):
        connection = sqlite3.connect(path, timeout=5.0, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # a state that was reached survives a power cut
            connection.execute("PRAGMA foreign_keys = ON")
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
                _create(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def _create(connection: sqlite3.Connection) -> None:
    about = "INSERT INTO about VALUES (?, ?, ?)"
    connection.execute("BEGIN IMMEDIATE")
    for statement in filter(str.strip, _TABLES.split(";")):
        connection.execute(statement)
    connection.execute(about, (_VERSION, secrets.token_bytes(32), secrets.token_hex(16)))
    connection.execute("COMMIT")


@contextmanager
def _said(path: Path) -> Generator[None]:
    """What SQLite says, in words."""
    try:
        yield
    except UnscError:
        raise
    except (sqlite3.Error, TypeError, ValueError) as e:
        told = str(e)
        if "locked" in told:
            raise StoreIsBusy(f"{path} is in use by another process; try again when it has ended") from e
        if "full" in told or "I/O" in told:
            raise InvalidRequest(f"cannot write {path} ({told}); make room on the disk and try again") from e
        if isinstance(e, sqlite3.OperationalError) and ("readonly" in told or "unable to open" in told):
            raise InvalidRequest(f"cannot write {path} ({told}); change its permissions") from e
        raise _damaged(path, e) from e


def _damaged(path: Path, error: Exception) -> InvalidData:
    return InvalidData(f"{path} is damaged ({error}); put a copy of the ledger in its place. Nothing was released")


def _entry(row: tuple[Any, ...], path: Path) -> Entry:
    try:
        found: dict[str, Any] = {**dict(zip(_COLUMNS.split(", "), row, strict=True)), "result": json.loads(row[-1])}
        for name, fits in _FITS.items():  # SQLite keeps whatever somebody writes into a column
            if not fits(found[name]):
                raise ValueError(f"{name} of entry {found['number']!r:.20} is {found[name]!r:.60}")
        return Entry(**found)
    except (TypeError, ValueError, RecursionError) as e:
        raise _damaged(path, e) from e


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_text_or_none(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_time(value: object) -> bool:
    return isinstance(value, float) and 0 <= value < _LAST


def _is_result(value: object) -> bool:
    verdicts: object = value.get("verdicts", []) if isinstance(value, dict) else None  # type: ignore[reportUnknown]
    return isinstance(verdicts, list) and all(isinstance(v, dict) and v.keys() >= _OF_VERDICT for v in verdicts)


_LAST = 253_402_300_800.0
"""Seconds from 1970 to the end of the year 9999, after which there are no dates."""
_OF_VERDICT = {"check", "unit", "measured", "source", "limit", "passed"}
_FITS: dict[str, Callable[[object], bool]] = {
    "digest": _is_text,
    "kind": _is_text,
    "state": lambda value: value in get_args(State),
    "parent": _is_text,
    "child": _is_text_or_none,
    "receipt": _is_text_or_none,
    "out": _is_text,
    "began": _is_time,
    "changed": _is_time,
    "result": _is_result,
}
"""What each column of an entry must hold."""
