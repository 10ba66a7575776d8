"""Names of 0.2.0, as recorded before they moved: each can still be imported, and what its warning says is true."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NAMES: dict[str, list[str]] = json.loads((Path(__file__).parent / "before" / "names.json").read_text())

NO_SUCCESSOR = {
    # Functions and option types of the command line. They are run by `unsc COMMAND`; nobody calls them from Python.
    "unsc.cli": {"audit", "compare", "demo", "list_methods", "list_metrics", "tune", "version"},
    "unsc.bench.cli": {*NAMES["unsc.bench.cli"]} - {"app"},
    # Tables of all data sets. What they held is said in each data set's own file.
    "unsc.bench.data.pixels": {"NORMALISATION"},
    "unsc.bench.datasets": {"READERS"},
    "unsc.bench.experiments": {"CLASSES"},
    "unsc.bench.presets": {"PRESETS", "preset"},
    "unsc.bench.scenarios": {"paper_scenario"},
    "unsc.bench.sources": {"SOURCES"},
    # Pieces inside of a run, which take other arguments now; a tuple of modules, which each kind of layer says itself.
    "unsc.loop": {"run", "split_watched", "still_known"},
    "unsc.moments": {"add_rows"},
    "unsc.pseudo_labels": {"removed_classes"},
    "unsc.layers": {"CONVOLUTIONS"},
    # Its figures are drawn by name (`draw_results`).
    "unsc.bench.figures.make": {"draw_mia"},
}
"""Names that were internal, with the reason."""

IMPORT_ALL = """
import importlib, json, sys, warnings

wanted, found = json.load(sys.stdin), {}
import unsc

function = unsc.forget
for module, names in wanted:
    for name in names:
        place, said = {}, ""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                exec(f"from {module} import {name}", place)
            except ImportError as e:
                found[f"{module}.{name}"] = {"error": str(e)}
                continue
        deprecations = [w for w in caught if issubclass(w.category, DeprecationWarning) and "unsc." in str(w.message)]
        row = {"said": [str(w.message) for w in deprecations], "where": [w.filename for w in deprecations]}
        if deprecations:
            new_module, _, new_name = str(deprecations[0].message).rpartition("use ")[2].rpartition(".")
            row["same"] = getattr(importlib.import_module(new_module), new_name) is place[name]
        found[f"{module}.{name}"] = row
assert unsc.forget is function
json.dump(found, sys.stdout)
"""


def _imported(order: list[tuple[str, list[str]]]) -> dict[str, dict[str, Any]]:
    """What came of importing all names, in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], input=json.dumps(order), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def imported() -> dict[str, dict[str, Any]]:
    wanted = [(module, [n for n in names if n not in NO_SUCCESSOR.get(module, ())]) for module, names in NAMES.items()]
    found = _imported(wanted)
    assert _imported(wanted[::-1]) == found  # whatever is imported first
    return found


def test_every_old_name_can_be_imported(imported: dict[str, dict[str, Any]]) -> None:
    assert {name: row["error"] for name, row in imported.items() if "error" in row} == {}


def test_a_warning_names_the_same_object(imported: dict[str, dict[str, Any]]) -> None:
    assert [name for name, row in imported.items() if row.get("said") and not row["same"]] == []


def test_a_warning_points_at_the_import(imported: dict[str, dict[str, Any]]) -> None:
    assert {where for row in imported.values() for where in row.get("where", ())} <= {"<string>"}


def test_names_of_modules_that_are_gone_warn(imported: dict[str, dict[str, Any]]) -> None:
    from unsc.deprecated import GONE

    silent = [name for name, row in imported.items() if name.rpartition(".")[0] in GONE and not row.get("said")]
    assert silent == []


def test_every_way_to_import_an_old_module() -> None:
    """`import a.b.c`, `import a.b.c as x` and `from a.b import c`; what hid a module in 0.2.0 still does."""
    code = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
import unsc.files
import unsc.methods.problem
import unsc.methods.problem as as_name
from unsc.methods import problem
import unsc.methods.apply
import unsc.forget
from unsc.methods.shared.problem import Problem
assert unsc.methods.problem.Problem is as_name.Problem is problem.Problem is Problem
assert callable(unsc.methods.apply) and callable(unsc.forget) and callable(unsc.audit)
assert unsc.files.write_json.__module__ == "unsc.storage.files"
assert not hasattr(unsc.files, "no_such_name") and not hasattr(unsc, "no_such_name")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
