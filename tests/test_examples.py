"""The examples run as they are, in a process of their own, and do what they say.

The notebooks beside them are made from the scripts and run by `make notebooks`, which CI does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


def _run(name: str, *arguments: str) -> str:
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_animation_shows_a_class_going_and_the_others_staying(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / "forgetting.gif"
    assert "Forgotten: 0 of" in _run("toy_animation.py", str(path))
    with image.open(path) as animation:
        assert animation.n_frames > 20


def test_without_its_files_an_example_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UNSC_DATA", "UNSC_RESNET20"):
        monkeypatch.delenv(name, raising=False)
    assert _run("third_party_network.py") == "Skipped: set UNSC_DATA and UNSC_RESNET20 to run it.\n"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_notebooks_are_those_of_the_scripts(script: Path) -> None:
    """Cell by cell, and the outputs are those of one run from top to bottom, without an error."""
    jupytext = pytest.importorskip("jupytext")
    wanted, found = jupytext.read(script), json.loads(script.with_suffix(".ipynb").read_text())
    sources = [(cell["cell_type"], "".join(cell["source"])) for cell in found["cells"]]
    assert sources == [(cell.cell_type, cell.source) for cell in wanted.cells], "run make notebooks KEEP=1"
    code = [cell for cell in found["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert not [out for cell in code for out in cell["outputs"] if out["output_type"] == "error"]
