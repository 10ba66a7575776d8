"""The paper's rows beside ours: all of them, once, with the verdict that the rule gives."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from unsc.bench.claims import FORGOTTEN, LEVEL, RETAINED, Claim, claims, write_claims
from unsc.bench.experiments import ABLATION
from unsc.bench.paper import Reported, data_sets, keys
from unsc.bench.results import Result

ROOT = Path(__file__).parents[2]
ORIGINAL = Reported((90.0, 0.1), (80.0, 1.0))
ROW = Reported((91.0, 0.1), (2.0, 1.0))


def made(method: str, retain: float, forget: float, *, table: str = "table1", trial: int = 0, **more: Any) -> Result:
    content = {
        "config": {"forget_samples": more.get("samples")},
        "settings": {"max_passes": more["passes"]} if "passes" in more else {},
        "protocol": {"epochs": more.get("epochs", 6)},
        "versions": {"unsc": "0.3.0"},
        "measured": {"values": {}, "skipped": {}},
    }
    values = {"retain_test_acc": retain, "forget_test_acc": forget}
    classes = tuple(range(more.get("classes", 1)))
    return Result(table, more.get("data", "svhn"), method, trial, classes, values, None, 1.0, content)


def claim(retain: float, forget: float, *, original: float = 90.0) -> Claim:
    own = [made("salun", retain, forget)]
    return Claim("table1", "svhn", "salun", ROW, ORIGINAL, own, [made("original", original, 80)])


@pytest.mark.parametrize(
    ("retain", "forget", "original", "verdict"),
    [
        (91.0, 2.0, 90.0, "reproduced"),
        (91.0 + RETAINED, 2.0 + FORGOTTEN, 90.0, "reproduced"),
        (88.0, 2.0, 87.0, "reproduced"),  # the gain counts, not the level
        (92.1, 2.0, 90.0, "not reproduced: keeps more"),
        (89.9, 4.1, 90.0, "not reproduced: keeps less, forgets less"),
        (91.0, 54.0, 90.0, "not reproduced: forgets less"),
        (85.9, 2.0, 89.9 - LEVEL, "not testable here: the original is at -5.1 points"),
    ],
)
def test_the_rule(retain: float, forget: float, original: float, verdict: str) -> None:
    assert claim(retain, forget, original=original).verdict() == verdict


def test_what_was_not_run_is_said() -> None:
    lacking = Claim("table1", "svhn", "salun", ROW, ORIGINAL, [], [])
    assert lacking.verdict() == "not testable here: not run"
    assert lacking.cells()[1:4] == ("91.00 (+1.00) / 2.00", "", "")


def test_of_the_original_the_level_counts() -> None:
    for retain, verdict in ((90.9, "reproduced"), (88.9, "not reproduced: a lower level")):
        own = [made("original", retain, 80)]
        assert Claim("table1", "svhn", "original", ORIGINAL, ORIGINAL, own, own).verdict() == verdict


def test_gains_are_against_the_same_trial() -> None:
    """Trials at 80 and 90 that both gain 1; against the mean of the originals they would gain 6 and -4."""
    originals = [made("original", 80, 80), made("original", 90, 80, trial=1)]
    own = [made("salun", 81, 2), made("salun", 91, 2, trial=1)]
    found = Claim("table1", "svhn", "salun", ROW, ORIGINAL, own, originals)
    assert found.gain.mean == 1 and found.gain.sd == 0 and found.cells()[3] == "n = 2"


def test_every_row_of_the_papers_tables_is_there_once() -> None:
    """Rows I, II and V of an ablation, and the first number of classes, are printed in its first table as well."""
    found = list(claims([]))
    rows = [(c.table, c.data, c.row) for c in found]
    assert len(set(rows)) == len(rows)
    several = sum(len(keys("multiclass", d, count)) for d in data_sets() for count in keys("multiclass", d)[1:])
    assert len(rows) == sum(len(keys("table1", d)) for d in data_sets()) + 2 * len(data_sets()) + several


def test_the_papers_method_is_shown_with_its_own_settings() -> None:
    """From the ablation if it is there, and of the preset that was trained longest."""
    short = [made("original", 95.5, 91), made("unsc_paper", 95.5, 50, passes=8, samples=1000)]
    (row,) = [c for c in claims(short) if c.found and c.row == "unsc_paper"]
    assert row.cells()[3] == "n = 1, 8 passes over 1,000 samples" and row.verdict() == "not reproduced: forgets less"
    whole = [
        made("original", 95.5, 91, table="ablation"),
        made(ABLATION["V"].method, 95.7, 0, table="ablation", passes=25),
    ]
    (row,) = [c for c in claims([*short, *whole]) if c.found and c.row == "unsc_paper"]
    assert row.cells()[3] == "n = 1, 25 passes over all samples" and row.verdict() == "reproduced"
    longer = [made("original", 70, 60, data="svhn@paper", epochs=200)]
    (row,) = [c for c in claims([*short, *longer]) if c.found and c.row == "original"]
    assert row.cells()[2:4] == ("70.0 / 60.0", "`paper`, n = 1")


def test_a_row_that_the_longest_preset_lacks_is_of_a_shorter_one_with_its_original() -> None:
    """And the paper's step of a longer preset is preferred to that of a shorter one's ablation."""
    short = [made("original", 95.0, 91), made("salun", 75.0, 0), made("original", 95.0, 91, table="ablation")]
    short += [made(ABLATION["V"].method, 90.0, 0, table="ablation", passes=25)]
    where: dict[str, Any] = {"data": "svhn@long", "epochs": 10}
    longer = [made("original", 96.0, 90, **where), made("unsc_paper", 96.5, 0, passes=15, **where)]
    rows = {c.row: c for c in claims([*short, *longer]) if c.found and c.table == "table1"}
    assert rows["salun"].gain.mean == -20 and rows["salun"].cells()[3] == "n = 1"
    assert rows["unsc_paper"].gain.mean == 0.5
    assert rows["unsc_paper"].cells()[3] == "`long`, n = 1, 15 passes over all samples"


def test_a_network_that_was_not_retrained_has_its_rows_too() -> None:
    """The smallest of several numbers of classes is the request of the first table; larger ones are not."""
    where: dict[str, Any] = {"data": "svhn@long", "epochs": 10, "table": "several"}
    made_of = [made(method, 96.0, 1, classes=n, **where) for method in ("original", "unsc_paper") for n in (1, 2)]
    (row,) = [c for c in claims(made_of) if c.found and c.table == "table1" and c.row == "unsc_paper"]
    assert [r.classes for r in (*row.found, *row.originals)] == [(0,), (0,)] and row.cells()[3] == "`long`, n = 1"


def test_a_network_retrained_without_several_classes_has_the_original_of_the_others() -> None:
    """It comes from another experiment on the same network, whose original is not counted twice."""
    where: dict[str, Any] = {"data": "svhn@long", "epochs": 10, "classes": 3}
    made_of = [
        made("original", 95.0, 90, table="several", **where),
        made("retrain", 95.5, 0, table="multiclass", **where),
    ]
    rows = {c.row: c for c in claims(made_of) if c.found}
    assert rows["3, retrain"].gain.mean == 0.5 and rows["3, original"].cells()[3] == "`long`, n = 1"


def test_a_result_without_its_original_is_left_out() -> None:
    """A gain is above the original of the same trial, and the level is that original's."""
    own = [made("salun", 96, 0), made("salun", 50, 0, trial=1), made("original", 95.5, 91)]
    own += [made("original", 70, 91, trial=2), made("scrub", 1, 1, trial=1)]
    found = {c.row: c for c in claims(own) if c.data == "svhn" and c.table == "table1"}
    assert found["salun"].gain.mean == 0.5 and found["salun"].cells()[3] == "n = 1"
    assert not found["salun"].verdict().startswith("not testable")
    alone = [c for c in claims([made("salun", 96, 0)]) if c.row == "salun" and c.data == "svhn"]
    assert [c.verdict() for c in alone] == ["not testable here: not run"]


@pytest.mark.skipif(not (ROOT / "results").exists(), reason="results are not part of this copy")
def test_the_committed_results_give_the_committed_page(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "results", tmp_path / "results", ignore=shutil.ignore_patterns("*.png", "*.safetensors"))
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "paper.md"
    page.write_text((ROOT / "docs" / "paper.md").read_text().replace("| cifar-10, all", "| changed"))
    assert write_claims(tmp_path / "results") == [page]
    assert page.read_text() == (ROOT / "docs" / "paper.md").read_text()
