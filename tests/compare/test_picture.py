"""The scorecard: how far from retraining, as colours."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from unsc.compare.picture import _distance, _tells, scorecard
from unsc.compare.render import headline
from unsc.compare.table import Comparison
from unsc.evaluation.shared.metrics import metrics


def _cell(trial: int, **values: float) -> dict:
    measured = {name: {"value": v, "n": 10, "low": None, "high": None, "detail": None} for name, v in values.items()}
    return {"trial": trial, "diverged": None, "measured": {"values": measured, "skipped": {}}}


@pytest.fixture
def comparison() -> Comparison:
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
    return Comparison(cells, 2)


def test_distances_are_shares_of_the_originals(comparison: Comparison) -> None:
    known = metrics()
    by_forget = {m: _distance(m, known["forget_test_acc"], comparison) for m in comparison.cells}
    assert by_forget == {"original": 1, "finetune": 0.5, "retrain": 0, "logit_mask": 0, "unsc": 0}
    assert _distance("unsc", known["ulira_auc"], comparison) == pytest.approx(0.6)
    assert _distance("logit_mask", known["ulira_auc"], comparison) == 1
    assert _distance("finetune", known["retain_test_acc"], comparison) == pytest.approx(0.2)  # two of ten points
    assert _distance("ssd", known["forget_test_acc"], comparison) is None


def test_what_says_nothing_about_forgetting_is_left_out_but_for_utility(comparison: Comparison) -> None:
    known = metrics()
    assert [name for name in comparison.measured() if _tells(known[name], comparison)] == [
        "retain_test_acc",
        "forget_test_acc",
        "ulira_auc",
    ]
    assert not _tells(known["rebound"], comparison) and not _tells(known["retain_gap"], comparison)


def test_it_is_drawn(comparison: Comparison, tmp_path: Path) -> None:
    scorecard(tmp_path / "card.png", comparison)
    assert (tmp_path / "card.png").read_bytes().startswith(b"\x89PNG")


def test_methods_with_settings_in_brackets_have_a_row(comparison: Comparison, tmp_path: Path) -> None:
    """In the picture, and in the terminal, where brackets could be taken for markup."""
    cells = {**comparison.cells, "unsc[budget=0.1]": comparison.cells["unsc"]}
    scorecard(tmp_path / "card.png", Comparison(cells, 2))
    console = Console(file=io.StringIO(), width=200)
    headline(Comparison(cells, 2)).show(console)
    assert "unsc[budget=0.1]" in console.file.getvalue()  # type: ignore[attr-defined]
