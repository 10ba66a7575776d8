"""What a comparison shows while it goes on: the means of the results that are there, and nothing before."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from unsc.cli.watched import Watched
from unsc.compare.comparison import ORIGINAL, Comparison
from unsc.compare.plan import Config
from unsc.compare.run import Piece
from unsc.storage.files import write_json

METHODS = ("retrain", "unsc")


def watching(folder: Path, *, terminal: bool) -> tuple[Watched, io.StringIO]:
    shown = io.StringIO()
    config = Config("digits", METHODS, trials=2, tune_tries=0, shadows=0)
    console = Console(file=shown, force_terminal=terminal, width=120, color_system=None)
    return Watched(Comparison(folder, config), console), shown


def measured(view: Watched, number: int, method: str, retain: float) -> Piece:
    """A piece of work that is done: its file is there."""
    trial = view.comparison.trials[number]
    values = {"retain_test_acc": {"value": retain}, "forget_test_acc": {"value": 0.0}}
    write_json(view.comparison.result_path(trial, method), {"measured": {"values": values}})
    return Piece("judge", (trial, method))


def lines(view: Watched, shown: io.StringIO) -> list[str]:
    view.console.print(view.table())
    return shown.getvalue().splitlines()


@pytest.mark.usefixtures("digits")
def test_the_table_fills(tmp_path: Path) -> None:
    """A method has as many trials as there are files of it, those of an earlier run included."""
    view, shown = watching(tmp_path, terminal=True)
    measured(view, 0, ORIGINAL, 97.0)
    with view.progress("comparing", 3) as advance:
        view.done(measured(view, 0, "unsc", 98.0), None)
        view.done(measured(view, 1, "unsc", 96.0), None)
        view.done(Piece("judge", (view.comparison.trials[0], "retrain")), "no room")
        advance()
    text = lines(view, shown)
    row = {name: next(line for line in text if name in line) for name in (ORIGINAL, *METHODS)}
    assert "1/2" in row[ORIGINAL] and "97.0" in row[ORIGINAL]
    assert "2/2" in row["unsc"] and "97.0 ± 1.41" in row["unsc"]
    assert "0/2, 1 failed" in row["retrain"]
    assert any("comparing: 1 of 3" in line for line in text)


@pytest.mark.usefixtures("digits")
def test_a_log_has_plain_lines(tmp_path: Path) -> None:
    view, shown = watching(tmp_path, terminal=False)
    with view.progress("comparing", 2) as advance:
        piece = measured(view, 0, "unsc", 98.0)
        advance()
        view.done(piece, None)
    assert shown.getvalue().splitlines() == [
        "comparing: 2 to do",
        "comparing: 1 of 2 (judge trial 0 unsc: retain_test_acc 98.0 %, forget_test_acc 0.0 %)",
    ]
