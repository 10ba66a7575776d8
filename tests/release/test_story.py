"""A class, twenty records and a user's records in sequence, from a store, the data that stays deleted; on digits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unsc.release import log, verify

STORY = Path(__file__).parents[2] / "examples" / "requests" / "story.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sklearn")
    out = tmp_path_factory.mktemp("story") / "digits"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, str(STORY), str(out)], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    return out


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "story.json").read_text())


def test_all_requests_passed_the_gate(folder: Path, told: dict[str, Any]) -> None:
    assert {name: one["state"] for name, one in told["requests"].items()} == dict.fromkeys(
        ("class", "records", "user"), "released"
    )
    assert [(entry.kind, entry.state) for entry in log(folder / "store")] == [
        ("classes", "released"),
        ("records", "released"),
        ("records", "released"),
    ]
    for name in told["requests"]:
        report = json.loads((folder / name / "report.json").read_text())
        assert report["verdicts"] and all(verdict["passed"] for verdict in report["verdicts"])


def test_the_data_that_stays_was_not_there(folder: Path, told: dict[str, Any]) -> None:
    with np.load(folder / "train.npz") as left:
        assert len(left["id"]) == told["left_of_train"] < 150


def test_receipts_are_a_chain(folder: Path) -> None:
    receipts = [folder / name for name in ("class", "records", "user")]
    found = verify(receipts, key=folder / "keys" / "key.pub", weights=folder / "user" / "model")
    assert [receipt.content["request"]["samples"] > 0 for receipt in found] == [True] * 3


def test_the_class_is_still_forgotten_and_the_rest_is_as_with_all_data(told: dict[str, Any]) -> None:
    """Within half a point of test accuracy."""
    ours, reference = told["from_the_store"], told["with_all_data"]
    assert told["original"]["forget"] > 95
    assert abs(ours["forget"] - reference["forget"]) <= 0.5 and ours["forget"] <= 0.5
    assert abs(ours["retain"] - reference["retain"]) <= 0.5
