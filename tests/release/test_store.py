"""A store is whole at every moment, loses what is deleted, and finds every changed byte."""

from __future__ import annotations

import json
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
from unsc.release.store import Contents, Released, Store

RELEASED = Released("runs/1/model.safetensors", "c" * 64)


def _bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_it_comes_back_as_it_was(contents: Contents, tmp_path: Path) -> None:
    Store.create(tmp_path / "store", contents)
    store = Store(tmp_path / "store")
    assert (store.manifest, store.generation, store.released) == (contents.manifest, 0, None)
    ours, theirs = store.statistics, contents.statistics
    assert (ours.plan, ours.samples, ours.fisher) == (theirs.plan, theirs.samples, theirs.fisher)
    assert torch.equal(ours.fit["fc"], theirs.fit["fc"]) and torch.equal(ours.check["fc"], theirs.check["fc"])
    assert store.canaries is not None and contents.canaries is not None
    assert store.canaries.ids == contents.canaries.ids
    assert torch.equal(store.canaries.batch.inputs, contents.canaries.batch.inputs)


@pytest.mark.parametrize("inputs", [(torch.ones(2, 3), torch.zeros(2)), {"ids": torch.ones(2, 3).long()}])
def test_canaries_have_any_inputs(inputs: object, tmp_path: Path) -> None:
    Canaries(Batch(inputs, torch.tensor([0, 1])), ("a", "b")).save(tmp_path / "c.safetensors")
    back = Canaries.load(tmp_path / "c.safetensors").batch.inputs
    assert type(back) is type(inputs) and str(back) == str(inputs)


def test_what_a_request_deletes_is_in_no_file(contents: Contents, tmp_path: Path) -> None:
    """The old state is removed, and the canary with it."""
    folder = tmp_path / "store"
    store = Store.create(folder, contents)
    assert contents.canaries is not None and b'"s2"' in _bytes(folder)
    request = Resolved((), ("s2",))
    manifest = contents.manifest.after(request, "b" * 64)
    later = store.advanced(replace(contents, manifest=manifest, canaries=contents.canaries.without({"s2"})), RELEASED)
    assert (later.generation, later.released) == (1, RELEASED)
    assert later.canaries is not None and later.canaries.ids == ("s0", "s1")
    assert b'"s2"' not in _bytes(folder) and contents.manifest.samples["s2"].fingerprint.encode() in _bytes(folder)
    assert len(list((folder / "states").iterdir())) == 1  # s8 is a copy of s2 and stays: so does their hash


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
                _ = store.statistics, store.canaries
        path.write_bytes(good)
    assert Store(folder).manifest == contents.manifest


def test_half_a_store_is_none(contents: Contents, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    Store.create(folder, contents)
    (folder / "store.json").unlink()
    with pytest.raises(InvalidRequest, match="is no store"):
        Store(folder)
    Store.create(folder, contents)  # what was left by somebody who was killed is in nobody's way
    assert len(list((folder / "states").iterdir())) == 1


def test_a_write_that_fails_leaves_the_old_store(
    contents: Contents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "store"
    store = Store.create(folder, contents)
    before = _bytes(folder)

    def full(self: Statistics, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Statistics, "save", full)
    with pytest.raises(InvalidRequest, match="disk is full"):
        store.advanced(contents, RELEASED)
    assert _bytes(folder) == before and Store(folder).generation == 0


def test_whoever_is_killed_before_the_old_state_is_removed_leaves_it_to_the_next(
    contents: Contents, tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    store = Store.create(folder, contents)
    (folder / "states" / "000001-abc").mkdir()
    (folder / "states" / "000001-abc" / "manifest.json").write_text("half")
    store.clean()
    assert len(list((folder / "states").iterdir())) == 1 and Store(folder).manifest == contents.manifest


def test_a_folder_with_something_else_is_not_touched(contents: Contents, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InvalidRequest, match="exists already"):
        Store.create(tmp_path, contents)
    assert [p.name for p in tmp_path.iterdir()] == ["letter.txt"]


def test_an_index_cannot_lead_out_of_the_store(contents: Contents, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    Store.create(folder, contents)
    index = json.loads((folder / "store.json").read_text())
    (folder / "store.json").write_text(json.dumps({**index, "state": "../../elsewhere"}))
    with pytest.raises(InvalidData, match="no name of one"):
        Store(folder)
