"""Results say which files they were made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from unsc.bench.origin import origin
from unsc.errors import InvalidData


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train_32x32.mat").write_bytes(b"abc")
    (tmp_path / "test_32x32.mat").write_bytes(b"")
    return tmp_path


def test_checksums_of_known_strings(folder: Path) -> None:
    """Those of RFC 1321."""
    found = origin("svhn", folder)
    assert found["md5"] == {
        "train_32x32.mat": "900150983cd24fb0d6963f7d28e17f72",
        "test_32x32.mat": "d41d8cd98f00b204e9800998ecf8427e",
    }
    assert found["note"] is None


def test_what_the_folder_says_is_kept(folder: Path) -> None:
    (folder / "svhn.txt").write_text("cropped anew\n")
    (folder / "cifar-10.txt").write_text("of other data\n")
    assert origin("svhn", folder)["note"] == "cropped anew"


def test_members_of_archives_are_looked_at_by_themselves(tmp_path: Path) -> None:
    (tmp_path / "cifar-100-python").mkdir()
    for name in ("train", "test", "meta"):
        (tmp_path / "cifar-100-python" / name).write_bytes(b"abc")
    assert set(origin("cifar-100", tmp_path)["md5"]) == {"train", "test", "meta"}


def test_a_lost_file_is_a_message(folder: Path) -> None:
    (folder / "test_32x32.mat").unlink()
    with pytest.raises(InvalidData, match=r"test_32x32\.mat"):
        origin("svhn", folder)
