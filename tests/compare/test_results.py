"""Numbers by hand, and the same numbers in every file."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsc.compare.comparison import Comparison
from unsc.compare.grid import Grid
from unsc.compare.plan import Config
from unsc.compare.render import by_group, headline, legend
from unsc.compare.results import Results, Summary, write
from unsc.errors import InvalidData
from unsc.evaluation.shared.metrics import metrics
from unsc.storage.files import write_json

CONFIG = Config("tiny_scenario:make", ("finetune", "retrain", "logit_mask"), trials=3)
FORGET = {
    "original": {0: 100.0, 1: 98.0, 2: 99.0},
    "retrain": {0: 0.0, 1: 1.0, 2: 2.0},
    "logit_mask": {0: 0.0, 1: 0.0, 2: 0.0},
    "finetune": {0: 80.0, 2: 90.0},
}
RETAIN = {
    "original": {0: 95.0, 1: 96.0, 2: 97.0},
    "retrain": {0: 95.5, 1: 96.0, 2: 96.5},
    "logit_mask": {0: 95.0, 1: 96.0, 2: 97.0},
    "finetune": {0: 90.0, 2: 91.0},
}


def _cell(trial: int, method: str, values: dict[str, float]) -> dict[str, Any]:
    found = {k: {"value": v, "n": 50, "low": v - 1, "high": None, "detail": {"x": 1}} for k, v in values.items()}
    return {
        "trial": trial, "method": method, "classes": [trial, trial + 1], "later": [3], "seed": 10 * trial,
        "settings": {"lr": 0.1}, "cost": {"seconds": 1.0, "peak_mib": None}, "diverged": None,
        "measured": {"values": found, "skipped": {}}, "versions": {},
    }  # fmt: skip


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    """A comparison whose results were written by hand; the second trial of finetune is not there."""
    comparison = Comparison(tmp_path, CONFIG)
    for method, values in FORGET.items():
        for i, v in values.items():
            content = _cell(i, method, {"forget_test_acc": v, "retain_test_acc": RETAIN[method][i]})
            write_json(comparison.result_path(comparison.trials[i], method), content)
    return comparison


def test_summaries_by_hand(comparison: Comparison) -> None:
    results = Results.read(comparison)
    assert results.summary("original", "forget_test_acc") == Summary(99.0, 1.0, 3)
    two = results.summary("finetune", "forget_test_acc")
    assert two is not None and (two.mean, two.sd, two.n) == (85.0, pytest.approx(50**0.5), 2)
    assert results.summary("finetune", "rmia_auc") is None and results.summary("unsc", "seconds") is None
    assert Summary.of([7.0]) == Summary(7.0, None, 1)
    assert [str(Summary.of(v)) for v in ([7.0], [1.0, 3.0], [98.0, 100.0])] == ["7.00", "2.00 ± 1.41", "99.0 ± 1.41"]


def test_metrics_come_in_the_order_of_the_registry(comparison: Comparison) -> None:
    order = [name for name in metrics() if name in ("forget_test_acc", "retain_test_acc")]
    assert list(Results.read(comparison).measured()) == order


def test_fooled_by_hand(comparison: Comparison) -> None:
    """The mask is where retraining is on forgotten accuracy; on retained accuracy the original is no worse."""
    results = Results.read(comparison)
    assert results.fooled(metrics()["forget_test_acc"]) == ("logit_mask",)
    assert results.fooled(metrics()["retain_test_acc"]) == ("all",)
    assert results.fooled(metrics()["rmia_auc"]) is None


def test_trials_are_paired_by_their_number(comparison: Comparison) -> None:
    """Where the original lacks one trial and retraining another, only the third can be compared."""
    comparison.result_path(comparison.trials[0], "original").unlink()
    comparison.result_path(comparison.trials[2], "retrain").unlink()
    write_json(
        comparison.result_path(comparison.trials[1], "logit_mask"), _cell(1, "logit_mask", {"forget_test_acc": 98.0})
    )
    results = Results.read(comparison)
    assert results.fooled(metrics()["forget_test_acc"]) == ()
    comparison.result_path(comparison.trials[1], "original").unlink()
    assert Results.read(comparison).fooled(metrics()["forget_test_acc"]) is None


def test_both_files_hold_the_same_numbers(comparison: Comparison) -> None:
    results = Results.read(comparison)
    write(results, comparison, seconds=12.5)
    content = json.loads((comparison.folder / "results.json").read_text())
    with (comparison.folder / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * (3 + 3 + 3 + 2)
    for method, by_trial in FORGET.items():
        mine = [r for r in rows if r["method"] == method and r["metric"] == "forget_test_acc"]
        assert {int(r["trial"]): float(r["value"]) for r in mine} == by_trial
        assert all(float(r["low"]) == float(r["value"]) - 1 and r["high"] == "" and r["n"] == "50" for r in mine)
        where = [(i, f"{i} {i + 1}", 10 * i) for i in by_trial]
        assert [(int(r["trial"]), r["classes"], int(r["seed"])) for r in mine] == where
        values = list(by_trial.values())
        expected = {"mean": fmean(values), "sd": pytest.approx(stdev(values)), "n": len(values)}
        assert content["summary"][method]["forget_test_acc"] == expected
    assert content["metrics"]["forget_test_acc"]["fooled_by"] == ["logit_mask"]
    assert content["metrics"]["forget_test_acc"]["reference"] == content["summary"]["retrain"]["forget_test_acc"]
    assert content["seconds"] == 12.5 and content["config"]["trials"] == 3 and len(content["cells"]) == 11
    assert {(c["trial"], c["method"]) for c in content["cells"]} == {(i, m) for m in FORGET for i in FORGET[m]}


def test_an_older_file_of_the_only_retrained_network(tmp_path: Path) -> None:
    """It has the distance of that network to itself, which is not shown; of others, and with a second one, it is."""
    for shadows, shown in ((0, "?"), (2, "0.00")):
        comparison = Comparison(tmp_path / str(shadows), replace(CONFIG, trials=1, shadows=shadows))
        for method in ("retrain", "finetune"):
            content = _cell(0, method, {"js_forget": 0.0, "retain_test_acc": 95.0})
            write_json(comparison.result_path(comparison.trials[0], method), content)
        results = Results.read(comparison)
        assert results.shown("retrain", "js_forget") == shown and results.shown("finetune", "js_forget") == "0.00"
        assert results.shown("retrain", "retain_test_acc") == "95.0"
        assert results.shown("logit_mask", "js_forget") == "–"


def test_a_broken_result_is_named(comparison: Comparison) -> None:
    comparison.result_path(comparison.trials[1], "retrain").write_text('{"trial": 1, ')
    with pytest.raises(InvalidData, match=r"trial-1/retrain\.json cannot be read .*; remove it, and run"):
        Results.read(comparison)


def test_tables_have_a_row_for_each_method_and_a_dash_for_what_is_missing(comparison: Comparison) -> None:
    comparison.result_path(comparison.trials[0], "finetune").unlink()
    comparison.result_path(comparison.trials[2], "finetune").unlink()
    grid = headline(Results.read(comparison))
    assert grid.head[0] == "method" and len(grid.head) == 3
    assert [[row[0] for row in block] for block in grid.blocks] == [
        ["original", "retrain"], ["finetune"], ["logit_mask"], ["better", "fooled by"],
    ]  # fmt: skip
    assert grid.blocks[1][0][1:] == ("–", "–")
    assert grid.blocks[-1] == (("better", "higher", "lower"), ("fooled by", "all", "mask"))
    assert [g.title for g in by_group(Results.read(comparison))] == ["Utility"]
    known = Results.read(comparison).measured()
    (rows,) = legend(known.values(), Results.read(comparison)).blocks
    assert [(row[2], row[3], row[4]) for row in rows] == [
        ("higher", "96.0 ± 0.50", "all"),
        ("lower", "1.00 ± 1.00", "mask"),
    ]


def test_a_bar_in_a_cell_does_not_make_a_column() -> None:
    grid = Grid("T", ("method", "|a|", "b" * 20, "c" * 20), ((("unsc", "1", "2", "3"),), (("all", "4", "5", "6"),)))
    lines = grid.markdown().splitlines()
    assert lines[0] == "**T**" and lines[3] == "|---|--:|--:|--:|" and lines[2].startswith(r"| method | \|a\| |")
    assert lines[4:] == ["| unsc | 1 | 2 | 3 |", "| all | 4 | 5 | 6 |"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0.00"), (0.0123, "0.012"), (0.5, "0.50"), (9.876, "9.88"), (12.34, "12.3"), (99.99, "100.0"),
        (999.97, "1000"), (1234.5, "1234"), (-12.34, "-12.3"), (float("nan"), "nan"),
    ],
)  # fmt: skip
def test_numbers_are_short(value: float, shown: str) -> None:
    assert str(Summary.of([value])) == shown


@given(st.floats(-9999, 9999))
def test_at_most_four_digits_and_near_the_value(value: float) -> None:
    shown = str(Summary.of([value]))
    assert sum(c.isdigit() for c in shown) <= 4
    assert abs(float(shown) - value) <= max(0.0005, 0.05 * abs(value)) * (1 + 1e-9)
