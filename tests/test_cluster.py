"""A comparison on a Ray cluster is the comparison that processes of this machine make, and is resumed like it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from unsc.compare import Config, Finished, compare
from unsc.errors import InvalidRequest

pytest.importorskip("ray", reason="Ray is not installed (the extra cluster)")
pytestmark = [
    # Of Ray itself: files and sockets that it leaves to the end of the process, and names that it renames.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
CONFIG = Config(
    "tiny_scenario:make",
    ("retrain", "finetune", "logit_mask"),
    1,
    0,
    0,
    30.0,
    0,
    ("retain_test_acc", "forget_test_acc"),
)


def _values(finished: Finished) -> dict[str, object]:
    folder = finished.comparison.folder / "results"
    found = {str(p.relative_to(folder)): json.loads(p.read_text()) for p in sorted(folder.rglob("*.json"))}
    return {name: {k: v["value"] for k, v in one["measured"]["values"].items()} for name, one in found.items()}


def test_a_cluster_compares_as_this_machine_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tests, source = Path(__file__).parent, Path(__file__).parents[1] / "src"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (source, tests))))
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    part = replace(CONFIG, methods=("retrain", "logit_mask"))
    assert compare(part, tmp_path / "cluster", jobs=1, cluster="local").failed == {}
    resumed = compare(CONFIG, tmp_path / "cluster", jobs=1, cluster="local")
    assert resumed.failed == {} and resumed.measured == 1  # only the method that was missing
    here = compare(CONFIG, tmp_path / "here", jobs=1)
    assert here.failed == {} and _values(resumed) == _values(here) and len(_values(here)) == 4


def test_a_cluster_that_is_not_there_is_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "")
    with pytest.raises(InvalidRequest, match="start one with ray start --head"):
        compare(CONFIG, tmp_path / "run", cluster="auto")
