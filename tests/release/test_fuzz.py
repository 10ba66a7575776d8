"""Whatever is in the files of a store: no traceback, nothing released from what is damaged, nothing lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_release import POLICY, Forgetting, make_store

from unsc.errors import UnscError
from unsc.release.asked import Asked
from unsc.release.keys import PrivateKey
from unsc.release.ledger import FILE
from unsc.release.receipt import Receipt, verify_chain
from unsc.release.release import handle

FILES = ("manifest.json", "statistics.safetensors", "canaries.safetensors", "markers.json", "store.json", FILE)


class Desk:
    """Copies of a store that has one release behind it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.key = folder, PrivateKey.create(folder / "key.pem")
        self.good, self.used = folder / "good", 0
        make_store(self.good / "store")
        self.request(self.good, "ant", "run0")
        self.request(self.copy(), "bee", "run1")  # forgets once for all that follow

    def copy(self) -> Path:
        self.used += 1
        return Path(shutil.copytree(self.good, self.folder / str(self.used)))

    def request(self, place: Path, name: str, out: str) -> bool:
        store = place / "store"
        make = Forgetting(store)
        return handle(store, Asked(classes=(name,)), make, policy=POLICY, key=self.key, out=place / out).released


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("fuzz"))


def files_of(place: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in place.rglob("*") if p.is_file() and "sqlite" not in p.name}


def check(desk: Desk, place: Path, damaged: str) -> None:
    before = files_of(place)
    try:
        assert desk.request(place, "bee", "run1")  # what was damaged did not matter
        receipts = [Receipt.load(place / run / "receipt.json") for run in ("run0", "run1")]
        verify_chain(receipts, desk.key.public)
        assert damaged == FILE  # in a part of it that nobody uses; all others have their hashes
    except UnscError as e:
        assert str(e) and not (place / "run1" / "model").exists()
        assert files_of(place) == before
    shutil.rmtree(place)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(FILES), st.integers(0, 4000), st.binary(min_size=1, max_size=30))
def test_bytes_of_a_store_are_changed(desk: Desk, name: str, place: int, noise: bytes) -> None:
    copied = desk.copy()
    path = copied / "store" / name
    good = path.read_bytes()
    start = place % len(good)
    bad = good[:start] + noise + good[start + len(noise) :]
    if bad == good:
        return
    path.write_bytes(bad)
    check(desk, copied, name)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["empty", "half", "missing", "a folder"])
def test_a_file_of_a_store_is_not_whole(desk: Desk, name: str, how: str) -> None:
    """A ledger that starts again from nothing would be a chain with its beginning lost."""
    copied = desk.copy()
    path = copied / "store" / name
    good = path.read_bytes()
    path.unlink()
    if how == "a folder":
        path.mkdir()
    elif how != "missing":
        path.write_bytes(good[: len(good) // 2 if how == "half" else 0])
    with pytest.raises(UnscError):
        desk.request(copied, "bee", "run1")
    assert not (copied / "run1" / "model").exists()
    shutil.rmtree(copied)
