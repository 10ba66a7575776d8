"""A store is whole at every moment, loses what is deleted, and finds every changed byte."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from unsc.batches import Batch
from unsc.errors import InvalidData, InvalidRequest
from unsc.release.canaries import Canaries
from unsc.release.manifest import Resolved
from unsc.release.statistics import Statistics
from unsc.release.store import Contents, Store


def _bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_it_comes_back_as_it_was(contents: Contents, tmp_path: Path) -> None:
    Store.create(tmp_path / "store", contents)
    store = Store(tmp_path / "store")
    assert (store.manifest, store.generation) == (contents.manifest, 0)
    ours, theirs = store.statistics, contents.statistics
    assert (ours.plan, ours.samples, ours.fisher) == (theirs.plan, theirs.samples, theirs.fisher)
    assert torch.equal(ours.fit["fc"], theirs.fit["fc"]) and torch.equal(ours.check["fc"], theirs.check["fc"])
    assert store.canaries.ids == contents.canaries.ids
    assert torch.equal(store.canaries.batch.inputs, contents.canaries.batch.inputs)


@pytest.mark.parametrize("inputs", [(torch.ones(2, 3), torch.zeros(2)), {"ids": torch.ones(2, 3).long()}])
def test_canaries_have_any_inputs(inputs: object, tmp_path: Path) -> None:
    Canaries(Batch(inputs, torch.tensor([0, 1])), ("a", "b")).save(tmp_path / "c.safetensors")
    back = Canaries.load(tmp_path / "c.safetensors").batch.inputs
    assert type(back) is type(inputs) and str(back) == str(inputs)


def test_what_a_request_deletes_is_in_no_file(contents: Contents, tmp_path: Path) -> None:
    """Neither its id nor its canary; its hash stays only if a copy of it stays."""
    Store.create(tmp_path / "old", contents)
    assert b'"s1"' in _bytes(tmp_path / "old")
    request, deleted = Resolved((), ("s1", "s2")), contents.canaries.batch.inputs[1].numpy().tobytes()
    assert deleted in _bytes(tmp_path / "old")
    left = Contents(
        contents.manifest.after(request, "b" * 64),
        contents.statistics,
        contents.canaries.without(request.ids),
        contents.markers,
    )
    (tmp_path / "new").mkdir()
    left.save(tmp_path / "new", generation=1)
    store = Store(tmp_path / "new")
    assert (store.generation, store.canaries.ids) == (1, ("s0",))
    assert b'"s1"' not in _bytes(store.folder) and deleted not in _bytes(store.folder)
    assert contents.manifest.samples["s1"].fingerprint.encode() not in _bytes(store.folder)
    assert contents.manifest.samples["s2"].fingerprint.encode() in _bytes(store.folder)  # that of s8


def test_the_last_canary_can_be_deleted(contents: Contents, tmp_path: Path) -> None:
    left = replace(contents, canaries=contents.canaries.without(contents.canaries.ids))
    assert len(Store.create(tmp_path / "store", left).canaries) == 0
    assert len(Store.create(tmp_path / "none", replace(contents, canaries=Canaries.none())).canaries) == 0


def test_every_changed_byte_is_found(
    contents: Contents, damage: Callable[[bytes], list[bytes]], tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    Store.create(folder, contents)
    for path in [p for p in folder.rglob("*") if p.is_file()]:
        good = path.read_bytes()
        for bad in damage(good):
            path.write_bytes(bad)
            with pytest.raises((InvalidData, InvalidRequest)):
                store = Store(folder)
                _ = store.manifest, store.statistics, store.canaries, store.markers
        path.write_bytes(good)
    assert Store(folder).manifest == contents.manifest


def test_half_a_store_is_none(contents: Contents, tmp_path: Path) -> None:
    Store.create(tmp_path / "store", contents)
    (tmp_path / "store" / "store.json").unlink()
    with pytest.raises(InvalidRequest, match="is no store"):
        Store(tmp_path / "store")


def test_a_write_that_fails_leaves_nothing(contents: Contents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Statistics, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Statistics, "save", full)
    with pytest.raises(InvalidRequest, match="disk is full"):
        Store.create(tmp_path / "store", contents)
    assert list(tmp_path.iterdir()) == []


def test_files_of_two_stores_are_no_store(contents: Contents, tmp_path: Path) -> None:
    """As when whoever moves files into their place is killed."""
    for name, generation in (("a", 0), ("b", 1)):
        (tmp_path / name).mkdir()
        left = replace(contents, manifest=replace(contents.manifest, data=name))
        left.save(tmp_path / name, generation=generation)
    (tmp_path / "b" / "manifest.json").rename(tmp_path / "a" / "manifest.json")
    with pytest.raises(InvalidData, match="cut short"):
        _ = Store(tmp_path / "a").manifest


def test_a_folder_with_something_else_is_not_touched(contents: Contents, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InvalidRequest, match="exists already"):
        Store.create(tmp_path, contents)
    assert [p.name for p in tmp_path.iterdir()] == ["letter.txt"]
