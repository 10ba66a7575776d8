"""Ranks over data sets, from made-up results whose order is known; and which results are of an earlier version."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unsc.bench.leaderboard import CRITERIA, Board, Standing, boards, page, write_leaderboard
from unsc.bench.outdated import outdated, said_of_versions
from unsc.bench.presets import ASIDE
from unsc.bench.results import Result, read_results, read_results_to_rank
from unsc.compare.scenarios import parse_name

RESULTS = Path(__file__).parents[2] / "results"


def made(
    method: str,
    retain: float,
    forget: float,
    *,
    data: str = "svhn",
    trial: int = 0,
    seconds: float | None = 1.0,
    diverged: str | None = None,
    version: str = "0.3.0",
    epochs: int = 6,
    mia: float = 1.0,
) -> Result:
    """A result in a table 1."""
    values = {"retain_test_acc": retain, "forget_test_acc": forget, "mia_confidence": mia}
    values |= {"js_forget": forget / 100, "js_retain": (100 - retain) / 100}
    content: Mapping[str, Any] = {
        "classes": [3],
        "network": {"name": "vgg11", "width": 0.25},
        "protocol": {"epochs": epochs},
        "config": {"tune_tries": 8},
        "versions": {"unsc": version},
        "measured": {"values": {}, "skipped": {}},
    }
    return Result("table1", data, method, trial, (3,), values, diverged, seconds, dict(content))


BASE = [made("original", 90, 80, seconds=0.0), made("retrain", 91, 0, seconds=500.0)]
TABLE = [
    *BASE,
    made("unsc", 91, 0.4, seconds=9.0),
    made("delete", 90, 0, seconds=3.0),
    made("ssd", 90, 80, seconds=2.0, mia=0.3),
    made("scrub", 10, 0, diverged="collapsed"),
    made("logit_mask", 92, 0, seconds=0.1),
]


def test_ranks_by_each_number() -> None:
    """The original and the retrained network are what is measured by, and have none; equal numbers share a rank."""
    ranks = {name: Standing.of("svhn", TABLE).ranks(worse) for name, worse in CRITERIA.items()}
    assert ranks["retained"] == {"logit_mask": 1, "unsc": 2, "delete": 3.5, "ssd": 3.5, "scrub": 5}
    assert ranks["forgotten"] == {"delete": 1.5, "logit_mask": 1.5, "unsc": 3, "ssd": 4, "scrub": 5}
    assert ranks["like retraining"] == {"logit_mask": 1, "unsc": 2, "delete": 3, "ssd": 4, "scrub": 5}
    assert ranks["attack"] == {"logit_mask": 2, "unsc": 2, "delete": 2, "ssd": 4, "scrub": 5}
    assert ranks["cost"] == {"logit_mask": 1, "ssd": 2, "delete": 3, "unsc": 4, "scrub": 5}


def test_ranks_are_of_means_over_trials() -> None:
    """80 and 96 are worse than 89 twice."""
    table = [*BASE, made("unsc", 89, 0), made("unsc", 89, 0, trial=1)]
    table += [made("delete", 80, 0), made("delete", 96, 0, trial=1)]
    assert Standing.of("svhn", table).ranks(CRITERIA["retained"]) == {"unsc": 1, "delete": 2}


def test_an_unknown_number_comes_last() -> None:
    table = [*BASE, made("unsc", 89, 0, seconds=None), made("delete", 90, 0, seconds=1e6)]
    assert Standing.of("svhn", table).ranks(CRITERIA["cost"]) == {"delete": 1, "unsc": 2}


def test_what_diverged_in_one_trial_is_not_ranked_by_the_others() -> None:
    """And has reached nothing: the trials that are left are its lucky ones."""
    table = [*BASE, made("original", 90, 80, trial=1), made("retrain", 91, 0, trial=1)]
    table += [made("unsc", 91, 0, trial=t) for t in (0, 1)]
    table += [made("delete", 99, 0), replace(made("delete", 0, 0, trial=1, diverged="NaN"), values={})]
    standing = Standing.of("svhn", table)
    assert standing.ranks(CRITERIA["retained"]) == {"unsc": 1, "delete": 2}
    assert standing.reached("unsc") and not standing.reached("delete")


def test_an_attack_is_compared_with_the_retrained_network_of_the_same_trial() -> None:
    """A trial in which nothing was retrained does not count as one in which both are the same."""
    table = [*BASE, made("unsc", 91, 0, mia=0.9), made("delete", 91, 0, mia=0.85)]
    table += [made("delete", 91, 0, mia=0.1, trial=1)]
    assert Standing.of("svhn", table).ranks(CRITERIA["attack"]) == {"unsc": 1, "delete": 2}
    assert Standing.of("svhn", table).ranks(CRITERIA["retained"]) == {"unsc": 1.5, "delete": 1.5}


def test_reached_is_by_the_originals_of_the_same_trials() -> None:
    """A gain of 1 in the only trial, whose original is below the mean of both."""
    table = [made("original", 90, 80), made("original", 94, 80, trial=1), made("unsc", 91, 0)]
    assert Standing.of("svhn", table).reached("unsc")


def test_a_data_set_without_an_original_has_no_table() -> None:
    lacking = [made("unsc", 95, 0, data="cifar-10"), made("retrain", 95, 0, data="cifar-10")]
    (board,) = boards([*TABLE, *lacking])
    assert [table.name for table in board.tables] == ["svhn"] and "cifar-10" not in page([board])
    assert boards(lacking) == []


@pytest.mark.parametrize(("retain", "forget", "reached"), [(90, 0.5, True), (89.9, 0, False), (95, 0.6, False)])
def test_reached_is_both_together(retain: float, forget: float, reached: bool) -> None:
    assert Standing.of("svhn", [*BASE, made("unsc", retain, forget)]).reached("unsc") is reached


def test_each_preset_has_a_board_and_the_longest_training_comes_first() -> None:
    """Data sets in the paper's order; results of other tables do not count."""
    few = [made(m, 95, 0, data="svhn@long", epochs=10) for m in ("original", "retrain", "unsc")]
    other = [made(result.method, 95, 0, data="cifar-10") for result in TABLE]
    aside = [replace(made("unsc", 95, 0, data="svhn@paper", epochs=200), table="ablation")]
    found = boards([*other, *TABLE, *few, *aside])
    assert [board.preset for board in found] == ["long", "cpu"]
    assert [table.name for table in found[1].tables] == ["svhn", "cifar-10"]


def test_methods_that_one_data_set_lacks_are_not_ranked() -> None:
    """Without `delete` on CIFAR-10, `unsc` is second to the mask on SVHN too, and not third."""
    less = [made(r.method, 95, 0, data="cifar-10") for r in TABLE if r.method not in ("delete", "ssd")]
    (board,) = boards([*TABLE, *less])
    assert [sorted(table.methods) for table in board.tables] == [["logit_mask", "scrub", "unsc"]] * 2
    assert board.tables[0].ranks(CRITERIA["forgotten"]) == {"logit_mask": 1, "unsc": 2, "scrub": 3}


def test_the_page_marks_controls_and_what_is_of_an_earlier_version() -> None:
    old = [made("unsc", 91, 0.4, version="0.2.0") if r.method == "unsc" else r for r in TABLE]
    text = page([Board("cpu", (Standing.of("svhn", TABLE), Standing.of("cifar-10", old)))])
    rows = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in text.splitlines() if line.startswith("|")}
    assert "*control:* logit_mask" in rows and "logit_mask" not in rows and "original" not in rows
    assert rows["unsc ‡"][0].strip() == "2 of 2" and rows["delete"][0].strip() == "2 of 2"
    assert rows["ssd"][0].strip() == "0 of 2" and rows["delete"][2].strip() == "3.5 ± 0.0"
    assert "Measured with version 0.2.0, 0.3.0." in text and "n = 1" in text


def test_only_what_has_changed_since_is_outdated() -> None:
    assert outdated(made("unsc", 1, 1, version="0.2.0")) and outdated(made("unsc[budget=1e-3]", 1, 1, version="0.2.9"))
    assert not outdated(made("unsc", 1, 1, version="0.10.0")) and not outdated(made("ssd", 1, 1, version="0.2.0"))
    assert outdated(made("unsc", 1, 1, version="unknown"))
    assert "‡" not in said_of_versions([made("ssd", 1, 1, version="0.2.0")])


def test_the_trial_that_stands_aside_is_kept_and_not_ranked() -> None:
    """Trained for more epochs than others of its data, it would be what all verdicts are by."""
    kept, ranked = (
        {parse_name(r.data)[1] for r in found} for found in (read_results(RESULTS), read_results_to_rank(RESULTS))
    )
    assert kept >= ASIDE and ranked == kept - ASIDE


def test_without_a_folder_of_documents_nothing_is_written(tmp_path: Path) -> None:
    assert write_leaderboard(tmp_path) == []


@pytest.mark.skipif(not RESULTS.exists(), reason="results are not part of this copy")
def test_the_committed_results_give_the_committed_page(tmp_path: Path) -> None:
    for data in RESULTS.glob("*/table1"):
        shutil.copytree(data, tmp_path / "results" / data.parent.name / "table1")
    (tmp_path / "docs").mkdir()
    (written,) = write_leaderboard(tmp_path / "results")
    assert written.read_bytes() == (RESULTS.parent / "docs" / "leaderboard.md").read_bytes()
