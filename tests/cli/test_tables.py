"""Tables for the terminal say what they are given, and nothing of it is lost."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from unsc.cli.tables import (
    about_method,
    about_metrics,
    audit_table,
    methods_table,
    show_grid,
    skipped_lines,
    tuned_table,
)
from unsc.compare.grid import Grid
from unsc.compare.tuning import Try, Tuned
from unsc.errors import InvalidRequest
from unsc.evaluation.audit import Audit
from unsc.evaluation.shared.metrics import Measured, Value, metrics
from unsc.methods import methods


def _shown(thing: object) -> list[list[str]]:
    """The rows of a table as it is printed, cell by cell."""
    out = io.StringIO()
    Console(file=out, width=400).print(thing)
    return [
        [cell.strip() for cell in line.strip("│┃").split("│")] for line in out.getvalue().splitlines() if "│" in line
    ]


def test_a_table_that_is_too_wide_is_shown_in_pieces(capsys: pytest.CaptureFixture[str]) -> None:
    """Each piece names its rows."""
    grid = Grid("T", ("method", "a", "b" * 20, "c" * 20), ((("unsc", "1", "2", "3"),), (("[all]", "4", "5", "6"),)))
    show_grid(grid, Console(width=50))
    shown = capsys.readouterr().out
    assert shown.count("unsc") == shown.count("[all]") == 2 and "b" * 20 in shown and "c" * 20 in shown
    assert max(map(len, shown.splitlines())) <= 50
    show_grid(grid, Console(width=100))
    assert capsys.readouterr().out.count("unsc") == 1


def test_every_method_and_metric_has_a_row() -> None:
    rows = _shown(methods_table())
    assert [row[0].removesuffix(" (control)") for row in rows] == list(methods())
    assert {row[0] for row in rows if row[0].endswith("(control)")} == {
        f"{name} (control)" for name in ("bias_shift", "head_only", "logit_mask")
    }
    by_name = {row[0]: row[1:] for row in rows}
    assert by_name["retrain"] == ["retain, recipe", "classes, records", "nothing"]
    assert by_name["finetune"] == ["retain", "classes, records", "lr, epochs"]
    lines = about_metrics().plain.splitlines()
    assert [re.split(r"[: ]", line)[0] for line in lines[::2]] == list(metrics())
    assert "forget_test_acc in %: lower is better" in lines
    assert "js_forget: lower is better; needs retrained" in lines


@pytest.mark.parametrize("name", methods())
def test_all_about_a_method(name: str) -> None:
    """Its docstring word for word, every setting with its default, and where it is searched."""
    text, method = about_method(name).plain, methods()[name]
    assert text.startswith(f"{name}\n") and method.about in text and "Mechanism:" in text
    for key, value in method.defaults.items():
        assert f"\n  {key} = {value!r}" in text
    for key, space in method.search.items():
        assert f"\n  {key} = {method.defaults[key]!r}, searched in {space}" in text
    assert text.endswith("  none") is (not method.defaults)


def test_an_unknown_method_suggests_the_nearest() -> None:
    with pytest.raises(InvalidRequest, match="did you mean unsc"):
        about_method("unsk")


def test_tries_are_all_shown_and_one_is_chosen() -> None:
    """Text that looks like markup stays text."""
    tries = (
        Try({"lr": 0.123456, "epochs": 3}, 90.0, 10.0, 0.81, 1.5, None),
        Try({"lr": 2.0, "epochs": 4}, 0.0, 100.0, 0.0, 0.5, "weights [bold] are [/nan]"),
        Try({"lr": 1e-5, "epochs": 5}, 95.0, 10.0, 0.855, 2.0, None),
    )
    rows = _shown(tuned_table(Tuned("finetune", {}, tries)))
    assert rows == [
        ["", "lr=0.123, epochs=3", "90.00", "10.00", "1.50", ""],
        ["", "lr=2, epochs=4", "0.00", "100.00", "0.50", "weights [bold] are [/nan]"],
        ["chosen", "lr=1e-05, epochs=5", "95.00", "10.00", "2.00", ""],
    ]
    assert _shown(tuned_table(Tuned("retrain", {}, (Try({}, 90.0, 0.0, 0.9, 1.0, None),))))[0][:2] == [
        "chosen",
        "none",
    ]


def _measured(**values: float) -> Measured:
    return Measured({name: Value(v, 50, v - 1, v + 1) for name, v in values.items()}, {})


def test_an_audit_beside_what_retraining_gets() -> None:
    model = _measured(forget_test_acc=50.0, retain_test_acc=96.0)
    alone = _shown(audit_table(Audit(model, None, None, {})))
    forget, retain = (f"{metrics()[name].title} (%)" for name in ("forget_test_acc", "retain_test_acc"))
    assert alone[0] == [forget, "50.000", "49.000 to 51.000", "50", "lower", "?", "?"]
    beside = _shown(
        audit_table(
            Audit(
                model,
                _measured(forget_test_acc=0.0, retain_test_acc=95.0),
                _measured(forget_test_acc=100.0, retain_test_acc=97.0),
                {"logit_mask": _measured(forget_test_acc=0.0), "head_only": _measured(forget_test_acc=80.0)},
            )
        )
    )
    assert beside[0] == [forget, "50.000", "49.000 to 51.000", "50", "lower", "0.000", "mask"]
    assert beside[1] == [retain, "96.000", "95.000 to 97.000", "50", "higher", "95.000", "all"]
    bare = Audit(Measured({"forget_test_acc": Value(1.0, 3)}, {}), None, None, {})
    assert _shown(audit_table(bare))[0][2] == ""


def test_reasons_are_given_once() -> None:
    measured = Measured({}, {"a": "needs x", "b": "needs y", "c": "needs x"})
    assert skipped_lines(measured) == ["Not measured: a, c: needs x", "Not measured: b: needs y"]
