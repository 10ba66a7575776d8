"""A user's own callable is found by its path, and what is missing is named."""

from __future__ import annotations

import collections
import sys
from pathlib import Path

import pytest

from unsc.errors import InvalidRequest
from unsc.loading.code import import_callable, made_by


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, with neither it nor "" on the path yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", ".")])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def test_installed_names_are_found() -> None:
    assert import_callable("collections:OrderedDict") is collections.OrderedDict
    assert import_callable("collections:OrderedDict.fromkeys")("a") == {"a": None}
    assert import_callable("os.path:join")("a", "b") == "a/b"


def test_a_module_of_the_current_folder_is_found(here: Path) -> None:
    (here / "my_networks_a.py").write_text("def make():\n    return 7\n")
    assert import_callable("my_networks_a:make")() == 7


@pytest.mark.parametrize("path", ["", "collections", "collections:", ":x", "a b:c", "a.:c", "../x:y", "x:y:z"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidRequest, match=r"not an import path; write package\.module:name"):
        import_callable(path)


def test_what_is_missing_is_named(here: Path) -> None:
    (here / "my_networks_b.py").write_text("import no_such_package_b\n")
    (here / "my_networks_c.py").write_text("def make_it(): ...\nsize = 3\n")
    (here / "my_networks_d.py").write_text("1 / 0\n")
    (here / "my_networks_e.py").write_text("import sys\nsys.exit(0)\n")
    cases = {
        "no_such_module_b:make": "there is no module 'no_such_module_b'",
        "os.no_such_part:make": "there is no module 'os.no_such_part'",
        "my_networks_b:make": "my_networks_b imports 'no_such_package_b', which is not installed",
        "my_networks_c:make": "my_networks_c has no 'make'; it has make_it",
        "my_networks_c:size": "is a int, which cannot be called",
        "my_networks_d:make": "importing my_networks_d fails with ZeroDivisionError",
        "my_networks_e:make": "importing my_networks_e fails with SystemExit: 0",
    }
    for path, message in cases.items():
        with pytest.raises(InvalidRequest, match=message):
            import_callable(path)


def test_code_that_ends_the_process_is_a_mistake_and_no_success(here: Path) -> None:
    (here / "my_networks_f.py").write_text("import sys\ndef make():\n    sys.exit(0)\n")
    with pytest.raises(InvalidRequest, match=r"my_networks_f:make\(\) failed \(SystemExit: 0\)"):
        made_by("my_networks_f:make")
