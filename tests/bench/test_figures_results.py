"""Figures from result files: accuracy by class and the membership attack, and the commands that draw them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unsc.bench.figures import classes, mia
from unsc.bench.figures.shared.make import draw_all, draw_results, measure_missing
from unsc.bench.results import read_results
from unsc.cli.bench import app
from unsc.errors import InvalidData, InvalidRequest
from unsc.storage.files import write_json

CONFIG = {"settings": [], "retain_samples": 1, "tune_tries": 1}


def result(
    out: Path,
    method: str,
    trial: int,
    gone: list[int],
    accuracy: dict[int, float],
    attack: float,
    table: str = "table1",
) -> None:
    """A file as `unsc bench` keeps them."""
    kept = {str(k): v for k, v in accuracy.items() if k not in gone}
    lost = {str(k): v for k, v in accuracy.items() if k in gone}
    values = {
        "retain_test_acc": {"value": sum(kept.values()) / len(kept), "detail": kept},
        "forget_test_acc": {"value": sum(lost.values()) / len(lost), "detail": lost if len(lost) > 1 else None},
        "mia_confidence": {"value": attack, "detail": {"attack_accuracy": 0.5 + attack / 10}},
    }
    about = {"table": table, "data": "svhn", "preset": "cpu", "config": CONFIG, "network": {"name": "n", "width": 1}}
    content = {"method": method, "trial": trial, "classes": gone, "diverged": None, "cost": {"seconds": 1.0}}
    protocol = {"epochs": 1, "schedule": "one-cycle", "batch_size": 1, "lr": 1.0, "patience": None}
    hardware = {"cores": 1, "machine": "m", "cuda": None}
    name = table if table == "table1" else f"{table}-{len(gone)}"
    write_json(
        out / "svhn" / name / f"trial-{trial}" / f"{method}.json",
        about | content | {"measured": {"values": values, "skipped": {}}, "protocol": protocol, "hardware": hardware},
    )


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Two trials of four methods in the table, one of them a control, and two classes at once."""
    for trial in (0, 1):
        result(tmp_path, "original", trial, [2], {0: 90.0, 1: 80.0 + trial, 2: 70.0 + 2 * trial}, 0.1)
        result(tmp_path, "unsc", trial, [2], {0: 91.0, 1: 82.0, 2: 0.0}, 0.8 + 0.1 * trial)
        result(tmp_path, "retrain", trial, [2], {0: 92.0, 1: 83.0, 2: 0.0}, 1.0)
        result(tmp_path, "logit_mask", trial, [2], {0: 92.0, 1: 83.0, 2: 0.0}, 0.2)
    result(tmp_path, "unsc", 0, [1, 2], {0: 99.0, 1: 3.0, 2: 4.0}, 0.5, table="multiclass")
    return tmp_path


def test_accuracy_by_class_is_the_mean_of_the_files(out: Path) -> None:
    found = classes.measure(r for r in read_results(out) if r.table == "table1")
    assert found["forgotten"] == [2] and found["trials"] == {"original": 2, "retrained": 2, "UNSC, ours": 2}
    assert found["accuracy"] == {
        "original": {"0": 90.0, "1": 80.5, "2": 71.0},
        "retrained": {"0": 92.0, "1": 83.0, "2": 0.0},
        "UNSC, ours": {"0": 91.0, "1": 82.0, "2": 0.0},
    }
    found = classes.measure(r for r in read_results(out) if r.table == "multiclass")
    assert found["accuracy"] == {"UNSC, ours": {"0": 99.0, "1": 3.0, "2": 4.0}} and found["forgotten"] == [1, 2]


@pytest.mark.parametrize(
    ("trials", "title"),
    [
        ((1, 1, 1), "one trial"),
        ((3, 3, 3), "mean of 3 trials"),
        ((3, 1, 3), "mean of 3 trials; retrained: one trial"),
        ((1, 1, 3), "one trial; UNSC, ours: mean of 3 trials"),
    ],
)
def test_the_title_names_methods_with_another_number_of_trials(trials: tuple[int, ...], title: str) -> None:
    assert classes.title_of(dict(zip(("original", "retrained", "UNSC, ours"), trials, strict=True))) == title


def test_the_attack_by_method_references_first_and_controls_last(out: Path) -> None:
    found = mia.measure(read_results(out))
    assert "accuracy of 0.51 to 0.60" in found["note"]  # of attacks on 0.1 to 1.0
    assert list(found["values"]) == ["original", "retrain", "unsc", "logit_mask"] and found["controls"] == [
        "logit_mask"
    ]
    assert found["values"]["unsc"] == pytest.approx([0.8, 0.9])  # and not that of two classes at once


def test_many_classes_are_drawn_too(tmp_path: Path) -> None:
    row = {str(k): float(k) for k in range(100)}
    content = {"forgotten": [5, 50], "trials": {"original": 1}, "accuracy": {"original": row, "UNSC, ours": row}}
    classes.draw(json.loads(json.dumps(content)), tmp_path / "classes.png")
    assert (tmp_path / "classes.png").read_bytes().startswith(b"\x89PNG")


def test_references_alone_are_no_picture(tmp_path: Path) -> None:
    """As where a method that the picture leaves out was run by itself, of many classes as of few."""
    for count in (3, 100):
        accuracy = {k: 50.0 for k in range(count)}
        for method in ("original", "retrain", "scrub"):
            result(tmp_path / str(count), method, 0, [2], accuracy, 0.1)
        drawn = {path.relative_to(tmp_path / str(count)).as_posix() for path in draw_all(tmp_path / str(count))}
        assert drawn == {"svhn/mia.png"}


def test_everything_that_the_files_allow_for_is_drawn(out: Path) -> None:
    drawn = {path.relative_to(out).as_posix() for path in draw_all(out)}
    assert drawn == {"svhn/classes.png", "svhn/classes-02.png", "svhn/mia.png"}
    assert all((out / name).read_bytes().startswith(b"\x89PNG") for name in drawn)


def test_without_results_the_attack_cannot_be_drawn(tmp_path: Path) -> None:
    for name, words in (("svhn", "--data svhn"), ("svhn@paper", "--data svhn --preset paper")):
        with pytest.raises(InvalidRequest, match=f"run unsc bench table1 {words}$"):
            draw_results("mia", name, tmp_path)


def test_only_what_is_missing_is_measured_and_failures_are_told(tmp_path: Path) -> None:
    calls = []

    def measured() -> dict:
        calls.append(1)
        return {"forgotten": [0], "x": [1, 2]}

    def fails() -> dict:
        raise InvalidRequest("not today")

    for _ in range(2):
        assert measure_missing({"bad": fails, "pseudo": measured}, tmp_path) == {"bad": "not today"}
    assert calls == [1] and json.loads((tmp_path / "figures" / "pseudo.json").read_text())["x"] == [1, 2]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "svhn" / "figures").mkdir(parents=True)
    (tmp_path / "svhn" / "figures" / "pseudo.json").write_text("{}")
    with pytest.raises(InvalidData, match=r"pseudo\.json cannot be drawn"):
        draw_all(tmp_path)


def test_render_draws_and_shows(out: Path) -> None:
    done = CliRunner().invoke(app, ["render", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "![mia](svhn/mia.png)" in (out / "README.md").read_text()


def test_the_command_for_the_attack(out: Path) -> None:
    done = CliRunner().invoke(app, ["mia", "--data", "svhn", "--out", str(out)])
    assert done.exit_code == 0 and (out / "svhn" / "mia.png").exists()
