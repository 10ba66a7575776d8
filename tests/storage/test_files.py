"""Files are written whole or not at all, and only our own are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from unsc.errors import InvalidData, InvalidRequest
from unsc.storage.files import load_tensors, new_folder, replaced_folder, save_tensors, write_json, write_whole


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """And nothing beside it."""
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(part: Path) -> None:
        part.write_text("half of the n")
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        write_whole(path, fail)
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert path.read_text() == "old"


def test_a_write_replaces_and_makes_folders(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.json"
    for content in ({"a": [1, 2]}, {"b": "é"}):
        write_json(path, content)
        assert json.loads(path.read_text(encoding="utf-8")) == content
    assert [p.name for p in path.parent.iterdir()] == ["a.json"]


def test_what_is_no_json_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"a": object()})
    assert not list(tmp_path.iterdir())


def test_tensors_come_back_as_they_were(tmp_path: Path) -> None:
    """Any type and layout, shared or not, with their metadata."""
    whole = torch.arange(12.0).reshape(3, 4)
    tensors = {
        "whole": whole,
        "same": whole,
        "turned": whole.T,
        "part": whole[1:, ::2],
        "bf16": whole.bfloat16(),
        "count": torch.tensor(7),
        "none": torch.empty(0, 3),
        "trained": torch.ones(2, requires_grad=True),
    }
    path = tmp_path / "a.safetensors"
    save_tensors(path, tensors, {"kind": "x", "list": [1, 2.5, None]})
    back, metadata = load_tensors(path)
    assert metadata == {"kind": "x", "list": [1, 2.5, None]}
    assert back.keys() == tensors.keys()
    for name, t in tensors.items():
        assert back[name].dtype == t.dtype
        assert torch.equal(back[name], t)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    """Missing, cut short, something else, or by someone else."""
    save_tensors(tmp_path / "whole", {"a": torch.zeros(100)}, {})
    (tmp_path / "short").write_bytes((tmp_path / "whole").read_bytes()[:-50])
    (tmp_path / "text").write_text("hello, this is no tensor file")
    (tmp_path / "empty").touch()
    for name in ("missing", "short", "text", "empty"):
        with pytest.raises(InvalidData, match=rf"cannot read .*{name}.*give a file that unsc saved"):
            load_tensors(tmp_path / name)
    save_file({"a": torch.zeros(1)}, tmp_path / "foreign")
    with pytest.raises(InvalidData, match=r"foreign was not saved by unsc"):
        load_tensors(tmp_path / "foreign")


def test_a_new_folder_must_be_empty(tmp_path: Path) -> None:
    """A folder that holds something, or a file, is an error and stays as it was."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "kept").write_text("kept")
    (tmp_path / "file").write_text("kept")
    for taken in ("full", "file"):
        with pytest.raises(InvalidRequest, match=taken), new_folder(tmp_path / taken):
            pass
    assert (tmp_path / "full" / "kept").read_text() == (tmp_path / "file").read_text() == "kept"


def test_a_new_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """Under its name there is nothing until the last file is written, and nothing if writing fails."""
    target = tmp_path / "a" / "b"
    with pytest.raises(OSError, match="disk full"), new_folder(target) as part:
        (part / "first").write_text("half")
        raise OSError("disk full")
    assert list((tmp_path / "a").iterdir()) == []
    with new_folder(target) as part:
        (part / "first").write_text("whole")
        assert not target.exists()
    assert [f.name for f in target.iterdir()] == ["first"]


def test_a_folder_that_was_filled_meanwhile_stays(tmp_path: Path) -> None:
    """Of two that write to one place at once, the second is told so."""
    target = tmp_path / "a"
    with pytest.raises(InvalidRequest, match="a exists already"), new_folder(target) as part:
        (part / "second").write_text("second")
        with new_folder(target) as other:
            (other / "first").write_text("first")
    assert [f.name for f in tmp_path.rglob("*")] == ["a", "first"]


@pytest.mark.parametrize("make", [new_folder, replaced_folder])
def test_a_link_is_followed(tmp_path: Path, make: Callable[[Path], AbstractContextManager[Path]]) -> None:
    """To a folder that is there, or that is not yet."""
    (tmp_path / "there").mkdir()
    for name in ("there", "new"):
        (tmp_path / "link").symlink_to(tmp_path / name)
        with make(tmp_path / "link") as part:
            (part / "file").write_text(name)
        assert (tmp_path / "link").is_symlink() and (tmp_path / name / "file").read_text() == name
        (tmp_path / "link").unlink()
    assert sorted(f.name for f in tmp_path.iterdir()) == ["new", "there"]


def test_a_folder_that_cannot_be_replaced_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/old").write_text("old")
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if self.name == "part":
            raise OSError("by design")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(OSError, match="by design"), replaced_folder(tmp_path / "a") as part:
        (part / "new").write_text("new")
    assert [f.name for f in sorted(tmp_path.rglob("*"))] == ["a", "old"]
