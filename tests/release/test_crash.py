"""Killed at any line, or without room on the disk at any write: whole files, a consistent ledger, and one release."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from tiny_release import POLICY, Forgetting, make_store, write_data, write_weights

import unsc
from unsc.errors import UnscError
from unsc.release import evidence
from unsc.release.asked import Asked
from unsc.release.candidate import Make
from unsc.release.from_store import FromStore
from unsc.release.keys import PrivateKey
from unsc.release.ledger import Entry, read_ledger
from unsc.release.receipt import Receipt, verify_chain
from unsc.release.release import Handled, handle
from unsc.release.store import Store

POINTS = 50
WATCHED = tuple(str(Path(unsc.__file__).parent / room) for room in ("release", "storage"))
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process of one's own to be killed, quickly")


class Desk:
    """Copies of a store that has one release behind it, each for one crash."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.crashes = folder, 0
        self.key = PrivateKey.create(folder / "keys" / "key.pem")
        self.first = folder / "first"
        make_store(self.first / "store")
        self.data, self.weights = write_data(folder / "data.npz"), write_weights(folder / "original.safetensors")
        self.request(self.first, "ant", "run0")
        evidence.code_hash()  # once, not in every process

    def request(self, place: Path, name: str, out: str) -> Handled:
        """With candidates that were made before, so that all that is left to go wrong is what is done with them."""
        return self.handled(place, name, out, Forgetting(place / "store"))

    def forget(self, place: Path, name: str, out: str) -> Handled:
        """With the real thing, from the store and the data."""
        store = place / "store"
        return self.handled(place, name, out, FromStore(store, data=str(self.data), weights=self.weights))

    def handled(self, place: Path, name: str, out: str, make: Make) -> Handled:
        store = place / "store"
        return handle(store, Asked(classes=(name,)), make, policy=POLICY, key=self.key, out=place / out, wait=0.5)

    def copy(self) -> Path:
        """Folders as they were after the first release. Its entry still names the folder that was copied."""
        self.crashes += 1
        return Path(shutil.copytree(self.first, self.folder / str(self.crashes)))


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    memory = Path("/dev/shm")  # a disk in memory, where there is one, makes thousands of writes quick
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        made = Desk(Path(folder))
        made.request(made.copy(), "bee", "run1")  # forgets once for all that follow
        yield made


def in_a_process(work: Callable[[], object]) -> int:
    """What `waitpid` says of a process that does the work, alone, and is gone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which do not run
        child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except UnscError:
            os._exit(3)
        except BaseException:
            os._exit(4)
    return os.waitpid(child, 0)[1]


class Lines:
    """Counts lines of the package when they run for the first time, and calls somebody at one of them."""

    def __init__(self, last: int, then: Callable[[], object]) -> None:
        self.seen, self.last, self.then = 0, last, then
        self.known: set[tuple[str, int]] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> Lines | None:
        if not frame.f_code.co_filename.startswith(WATCHED):
            return None
        here = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and here not in self.known:  # loops over samples would else be most of a run
            self.known.add(here)
            self.seen += 1
            if self.seen == self.last:
                self.then()
        return self


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def entries_of(place: Path) -> tuple[Entry, ...]:
    with read_ledger(place / "store") as ledger:
        return ledger.entries()


def check_after_crash(place: Path) -> None:
    """Whoever looks without repairing anything sees no half of a model, and no model without its receipt."""
    entries = list(entries_of(place))
    assert entries[0].state == "released" and len(entries) <= 2
    out = place / "run1"
    if (out / "model").exists():
        assert entries[1].state in ("releasing", "released")
        Receipt.load(out / "receipt.json").verify_weights(out / "model")
    if len(entries) == 2 and entries[1].state == "released":
        assert (out / "model").exists()


def check_released(desk: Desk, place: Path, name: str, out: str) -> None:
    """The request is carried out exactly once, and everything agrees with everything."""
    handled = desk.request(place, name, out)
    assert handled.released
    store = Store(place / "store")
    assert store.manifest.weights == handled.entry.child and store.statistics and len(store.canaries) == 2
    released = [entry for entry in entries_of(place) if entry.state == "released"]
    assert [entry.digest for entry in released].count(handled.entry.digest) == 1
    assert {entry.state for entry in entries_of(place)} <= {"released", "dropped"}
    receipts = [Receipt.load(place / run / "receipt.json") for run in ("run0", Path(handled.entry.out).name)]
    verify_chain(receipts, desk.key.public)
    receipts[1].verify_weights(Path(handled.entry.out) / "model")
    names = {"model", "receipt.json", "report.json", "forgotten.salt"}
    assert {path.name for path in (place / "run1").iterdir()} == names
    hidden = [path for path in place.rglob(".*")]
    assert hidden == [] and {p.name for p in place.iterdir()} == {"store", "run0", "run1"}


def lines_of_a_run(desk: Desk) -> int:
    lines = Lines(-1, lambda: None)
    place = desk.copy()
    sys.settrace(lines)
    try:
        desk.forget(place, "bee", "run1")
    finally:
        sys.settrace(None)
    return lines.seen


def test_killed_at_points_all_over_a_run(desk: Desk) -> None:
    """From the first line to the last, while samples are read and the network forgets from the store, too."""
    total = lines_of_a_run(desk)
    assert total > 10 * POINTS
    states: set[str] = set()
    for k in range(POINTS):
        place = desk.copy()

        def work(place: Path = place, line: int = 1 + k * (total - 1) // (POINTS - 1)) -> None:
            torch.set_num_threads(1)  # threads of the parent are not in this process
            sys.settrace(Lines(line, die))
            desk.forget(place, "bee", "run1")

        assert os.WTERMSIG(in_a_process(work)) == signal.SIGKILL
        check_after_crash(place)
        entries = entries_of(place)
        states.add(entries[1].state if len(entries) == 2 else "none")
        check_released(desk, place, "bee", "run1")
        shutil.rmtree(place)
    assert states == {"none", "working", "releasing", "released"}  # the points are spread over all of them


WRITES = ("replace", "fsync", "mkdir", "open", "link", "unlink")


def calls(stop_at: int, then: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count calls of the operating system that change files; at one of them, do something else first."""
    seen: list[str] = []

    def watched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **more: Any) -> Any:
            seen.append(name)
            if len(seen) == stop_at:
                then()
            return real(*words, **more)

        return call

    for name in WRITES:
        monkeypatch.setattr(os, name, watched(name, getattr(os, name)))
    return seen


@pytest.fixture
def changes(desk: Desk) -> Iterator[int]:
    """How many such calls a run has."""
    place = desk.copy()
    with pytest.MonkeyPatch.context() as patch:
        seen = calls(-1, lambda: None, patch)
        desk.request(place, "bee", "run1")
    yield len(seen)


def test_killed_before_a_change_of_a_file(desk: Desk, changes: int) -> None:
    assert changes > 50
    for k in range(1, changes + 1, 2):
        place = desk.copy()

        def work(place: Path = place, k: int = k) -> None:
            calls(k, die, pytest.MonkeyPatch())
            desk.request(place, "bee", "run1")

        assert os.WTERMSIG(in_a_process(work)) == signal.SIGKILL
        check_after_crash(place)
        check_released(desk, place, "bee", "run1")
        shutil.rmtree(place)


def test_no_room_at_any_change_of_a_file(desk: Desk, changes: int) -> None:
    """A message in words; then either all of the release or nothing, and the next call does the rest."""

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for k in range(1, changes + 1):
        place = desk.copy()
        with pytest.MonkeyPatch.context() as patch:
            seen = calls(k, full, patch)
            try:
                desk.request(place, "bee", "run1")
                assert seen[k - 1] == "mkdir"  # of a folder that is there already
            except UnscError as e:
                assert "full" in str(e)
        check_after_crash(place)
        check_released(desk, place, "bee", "run1")
        shutil.rmtree(place)


def test_files_may_not_grow(desk: Desk) -> None:
    """As on a full disk, from the kernel itself: the ledger's own file, too, stops at some size."""
    codes: set[int] = set()
    for size in (0, 100, 600, 1500, 3000, 4100, 8300, 12500, 16500, 20700, 50_000, 200_000):
        place = desk.copy()

        def work(place: Path = place, size: int = size) -> None:
            torch.set_num_threads(1)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            desk.forget(place, "bee", "run1")

        code = os.waitstatus_to_exitcode(in_a_process(work))
        codes.add(code)
        check_after_crash(place)
        assert code == 0 or not (place / "run1" / "model").exists() or entries_of(place)[1].state == "releasing"
        check_released(desk, place, "bee", "run1")
        shutil.rmtree(place)
    assert codes == {0, 3}  # done, or a message


def test_another_request_comes_after_a_crash(desk: Desk) -> None:
    """What had not passed the gate is gone, and the other request starts from what was released."""
    place = desk.copy()

    def work() -> None:
        patch = pytest.MonkeyPatch()
        patch.setattr("unsc.release.release.write_receipt", lambda *_: die())
        desk.request(place, "bee", "run1")

    in_a_process(work)
    assert (place / "run1").exists()
    other = desk.request(place, "cat", "run2")
    assert other.released and not (place / "run1").exists()
    assert other.entry.parent == entries_of(place)[0].child
