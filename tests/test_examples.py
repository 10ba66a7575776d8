"""The examples run as they are, in a process of their own, and do what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


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
