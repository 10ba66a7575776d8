"""Where results may go is known before anything is computed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unsc.errors import InvalidRequest
from unsc.storage.places import check_place, check_writable


def test_the_current_folder_and_disks_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for place in (".", "..", "", "/", tmp_path / "here/no/.."):
        with pytest.raises(InvalidRequest, match="holds the current folder; name a new folder in it"):
            check_place(Path(place))
    check_place(Path("new/deeper"))
    assert not list(Path().iterdir())


def test_what_is_read_is_not_replaced_and_data_gets_no_folders(tmp_path: Path) -> None:
    for name in ("data/cat", "models/mine", "out"):
        (tmp_path / name).mkdir(parents=True)
    data, model = str(tmp_path / "data"), tmp_path / "models/mine"
    check_place(tmp_path / "out", read=(model, None, "package.module:make"), data=(data, None))
    check_place(model / "result", read=(model,))
    for place in (tmp_path / "models", model):
        with pytest.raises(InvalidRequest, match=r"mine is in .*, which would be replaced"):
            check_place(place, read=(model,))
    (tmp_path / "link").symlink_to(data)
    for place in ("data/new", "data/cat/new", "link/new"):
        with pytest.raises(InvalidRequest, match=r"new is in the data .*, whose folders are classes"):
            check_place(tmp_path / place, data=(data,))


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for check in (check_place, check_writable):
        with pytest.raises(InvalidRequest, match="a part of this path is a file"):
            check(tmp_path / "file/new")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    asked: list[object] = []

    def refuse(path: object, mode: int) -> bool:  # the owner of everything may write everywhere
        asked.append(path)
        return False

    monkeypatch.setattr(os, "access", refuse)
    for check in (check_place, check_writable):
        with pytest.raises(InvalidRequest, match="new: it may not be written to; name another folder"):
            check(tmp_path / "a/b/new")
    assert asked == [tmp_path.resolve()] * 2
