"""What tests of commands on a user's own files share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from brought import MODULE, NAMES, everything, fit, pixels
from safetensors.torch import save_file

import unsc
from unsc import cli

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run_in(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[Path], Run]]:
    """What runs `unsc` with some words in a folder, and gives its exit code, output and errors."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["unsc", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        shown = capsys.readouterr()
        assert "Traceback" not in shown.out + shown.err
        return int(stop.value.code or 0), shown.out, shown.err

    def inside(folder: Path) -> Run:
        monkeypatch.chdir(folder)
        return run

    yield inside
    sys.modules.pop("brought_app", None)


@pytest.fixture
def command(folder: Path, run_in: Callable[[Path], Run]) -> Run:
    """Runs `unsc` in the folder with a user's files."""
    return run_in(folder)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module, a trained network's weights, and images of three classes to train and to validate."""
    pillow = pytest.importorskip("PIL.Image")
    root = tmp_path_factory.mktemp("trained")
    (root / "brought_app.py").write_text(MODULE)
    generator = np.random.default_rng(0)
    for part, each in (("train", 24), ("test", 12)):
        for label, name in enumerate(NAMES):
            (root / part / name).mkdir(parents=True)
            for i in range(each):
                pillow.fromarray(pixels(label, generator)).save(root / part / name / f"{i}.png")
    torch.manual_seed(0)
    own: dict[str, Any] = {}
    exec(MODULE, own)
    save_file(own["build"]().state_dict(), root / "untrained.safetensors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        loaded = unsc.load_model("brought_app:build", root / "untrained.safetensors", search=root)
    fit(loaded.model, everything(unsc.load_data(str(root / "train"), model=loaded), loaded.model))
    save_file(loaded.model.state_dict(), root / "model.safetensors")
    sys.modules.pop("brought_app", None)
    return root


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    """The same files, in a folder of this test's own."""
    for path in trained.iterdir():
        (tmp_path / path.name).symlink_to(path)
    return tmp_path
