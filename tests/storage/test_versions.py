"""The commit that a result names is the one of the code that made it, or none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from unsc.storage.versions import commit, versions


def git(folder: Path, *words: str) -> str:
    name = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    done = subprocess.run(["git", "-C", str(folder), *name, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one committed file in a folder `code`."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code/a.py").write_text("a = 1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


@pytest.fixture(autouse=True)
def forget_answers() -> None:
    commit.cache_clear()


def test_a_checkout_is_named_by_its_commit(checkout: Path) -> None:
    (checkout / "notes.txt").write_text("not code")
    assert commit(checkout / "code") == git(checkout, "rev-parse", "HEAD")[:12]


def test_code_that_was_changed_is_marked(checkout: Path) -> None:
    (checkout / "code/a.py").write_text("a = 2\n")
    assert commit(checkout / "code") == git(checkout, "rev-parse", "HEAD")[:12] + "+"


def test_code_that_git_does_not_hold_has_no_commit(checkout: Path) -> None:
    """As when the package is installed in a folder inside another project's repository."""
    (checkout / "installed").mkdir()
    (checkout / "installed/a.py").write_text("a = 1\n")
    assert commit(checkout / "installed") is None


def test_without_git_there_is_no_commit(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout))
    assert commit(checkout / "code") is None
    assert "commit" not in versions() and versions()["unsc"]
