"""The scorecard: how far from retraining, as colours."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from unsc.cli.tables import show_grid
from unsc.compare import picture
from unsc.compare.picture import distance_to_retraining, scorecard, tells_forgetting
from unsc.compare.render import headline
from unsc.compare.results import Results
from unsc.evaluation.shared.metrics import metrics


def _cell(trial: int, **values: float) -> dict:
    measured = {name: {"value": v, "n": 10, "low": None, "high": None, "detail": None} for name, v in values.items()}
    return {"trial": trial, "diverged": None, "measured": {"values": measured, "skipped": {}}}


@pytest.fixture
def results() -> Results:
    """Two trials: the mask hides everything, fine-tuning forgets half, and U-LiRA catches the mask."""
    numbers = {
        "original": ((99, 100, 1.0), (98, 100, 1.0)),
        "finetune": ((97, 50, 0.9), (96, 50, 0.9)),
        "retrain": ((99, 0, 0.5), (98, 0, 0.5)),
        "logit_mask": ((99, 0, 1.0), (98, 0, 1.0)),
        "unsc": ((99, 0, 0.8), (98, 0, 0.8)),
    }
    names = "retain_test_acc", "forget_test_acc", "ulira_auc"
    cells = {
        method: [_cell(i, **dict(zip(names, row, strict=True))) for i, row in enumerate(rows)]
        for method, rows in numbers.items()
    }
    return Results(cells, 2)


def test_distances_are_shares_of_the_originals(results: Results) -> None:
    known = metrics()
    by_forget = {m: distance_to_retraining(m, known["forget_test_acc"], results) for m in results.cells}
    assert by_forget == {"original": 1, "finetune": 0.5, "retrain": 0, "logit_mask": 0, "unsc": 0}
    assert distance_to_retraining("unsc", known["ulira_auc"], results) == pytest.approx(0.6)
    assert distance_to_retraining("logit_mask", known["ulira_auc"], results) == 1
    assert distance_to_retraining("finetune", known["retain_test_acc"], results) == pytest.approx(
        0.2
    )  # two of ten points
    assert distance_to_retraining("ssd", known["forget_test_acc"], results) is None


def test_what_says_nothing_about_forgetting_is_left_out_but_for_utility(results: Results) -> None:
    known = metrics()
    assert [name for name in results.measured() if tells_forgetting(known[name], results)] == [
        "retain_test_acc",
        "forget_test_acc",
        "ulira_auc",
    ]
    assert not tells_forgetting(known["rebound"], results) and not tells_forgetting(known["retain_gap"], results)


def test_distances_are_of_the_trials_that_all_have(results: Results, tmp_path: Path) -> None:
    """Each lacks another trial of three: what is left is compared with itself, and nothing fails."""
    metric = metrics()["forget_test_acc"]
    cells = {name: [_cell(t, retain_test_acc=90.0, forget_test_acc=v) for t, v in rows] for name, rows in {
        "original": [(0, 100.0), (1, 50.0), (2, 100.0)],
        "retrain": [(0, 0.0), (1, 10.0)],
        "unsc": [(1, 30.0), (2, 0.0)],
        "ssd": [(2, 0.0)],
    }.items()}  # fmt: skip
    found = Results(cells, 3)
    assert distance_to_retraining("unsc", metric, found) == 0.5 and distance_to_retraining("ssd", metric, found) is None
    scorecard(tmp_path / "card.png", found)


def test_it_is_drawn(results: Results, tmp_path: Path) -> None:
    scorecard(tmp_path / "card.png", results)
    assert (tmp_path / "card.png").read_bytes().startswith(b"\x89PNG")


def test_what_retraining_gets_may_not_be_known(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of its distance to itself the picture shows a question mark; the others' have no colour, and their values."""
    for cells in results.cells.values():
        for cell in cells:
            cell["measured"]["values"]["js_forget"] = {"value": 0.75}
    for cell in results.cells["retrain"]:
        del cell["measured"]["values"]["js_forget"]
        cell["measured"]["skipped"]["js_forget"] = "no twin"
    metric, shown = metrics()["js_forget"], []
    assert tells_forgetting(metric, results) and distance_to_retraining("unsc", metric, results) is None

    def keep(figure: Figure, _: Path) -> None:
        shown.extend(text.get_text() for text in figure.axes[0].texts)

    monkeypatch.setattr(picture, "save", keep)
    scorecard(tmp_path / "card.png", results)
    assert shown.count("?") == 1 and shown.count("0.75") == 4


def test_methods_with_settings_in_brackets_have_a_row(results: Results, tmp_path: Path) -> None:
    """In the picture, and in the terminal, where brackets could be taken for markup."""
    cells = {**results.cells, "unsc[budget=0.1]": results.cells["unsc"]}
    scorecard(tmp_path / "card.png", Results(cells, 2))
    console = Console(file=io.StringIO(), width=200)
    show_grid(headline(Results(cells, 2)), console)
    assert "unsc[budget=0.1]" in console.file.getvalue()  # type: ignore[attr-defined]
