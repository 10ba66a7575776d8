"""Verdicts on the paper's figures: what each rule takes for the same, for nearly the same, and for something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unsc.bench.figure_claims import latent_space, lines, loss_contour, pseudo_labels


@pytest.mark.parametrize(
    ("moved", "verdict"), [(0.05, "reproduced"), (0.15, "reproduced in part"), (0.3, "not reproduced")]
)
def test_pseudo_labels_by_how_many_would_have_to_change(moved: float, verdict: str) -> None:
    content = {"pseudo_labels": [0.5, 0.5, 0.0], "retrained": [0.5, 0.5 - moved, moved], "agreement": 0.4}
    here, said = pseudo_labels(content)
    assert said == verdict and f"{moved:.1%}" in here and "40.0%" in here


@pytest.mark.parametrize(("within", "verdict"), [(1.1, "reproduced"), (1.9, "not reproduced")])
def test_a_contour_is_flat_against_what_rises_outside(within: float, verdict: str) -> None:
    loss = [[9.0, 6.0, 9.0], [1.0, 1.0, within], [9.0, 8.0, 9.0]]  # rows: outside; columns: within
    here, said = loss_contour({"loss": loss})
    assert said == verdict and "at least 6.0 outside" in here


@pytest.mark.parametrize(
    ("ours", "verdict"), [(0.4, "reproduced"), (0.65, "reproduced in part"), (0.79, "not reproduced")]
)
def test_dispersion_is_a_share_of_the_way_to_retraining(ours: float, verdict: str) -> None:
    def of(forgotten: float) -> dict[str, float]:
        return {"forgotten": forgotten, "retained": 0.9}

    assert (
        latent_space({"neighbours": {"original": of(0.8), "unlearned": of(ours), "retrained": of(0.4)}})[1] == verdict
    )


def test_a_retrained_cluster_that_stays_together_says_nothing() -> None:
    same = {name: {"forgotten": 0.8, "retained": 0.9} for name in ("original", "unlearned", "retrained")}
    assert latent_space({"neighbours": same})[1].startswith("not testable")


def result(
    folder: Path,
    method: str,
    *,
    forget: float,
    mia: float | None = None,
    attack: float = 0.55,
    trial: int = 0,
    by_class: tuple[float, float] | None = None,
) -> None:
    first, second = by_class or (96.0 if method == "original" else 95.0, 94.0)
    values: dict[str, Any] = {
        "retain_test_acc": {"value": 95.0, "detail": {"0": first, "1": second}},
        "forget_test_acc": {"value": forget, "detail": None},
    }
    if mia is not None:
        detail = {"members": 2000, "non_members": 2000, "attack_accuracy": attack}
        values["mia_confidence"] = {"value": mia, "detail": detail}
    about = {"table": "table1", "data": "svhn@long", "preset": "long", "protocol": {"epochs": 10}}
    ran = {"config": {}, "trial": trial, "method": method, "classes": [3], "seed": 0, "settings": {}, "diverged": None}
    content = {**about, **ran, "cost": {"cpu_seconds": 1.0}, "measured": {"values": values, "skipped": {}}}
    path = folder / "svhn@long" / "table1" / f"trial-{trial}" / f"{method}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("attack", "original", "ours", "verdict"),
    [
        (0.52, 0.1, 0.98, "not testable here: the attack cannot be read"),  # 2.5 standard errors from chance
        (0.53, 0.6, 0.98, "not testable here: the attack cannot be read"),  # members are taken for never seen
        (0.53, 0.1, 0.98, "reproduced"),
        (0.53, 0.1, 0.4, "not reproduced"),
    ],
)
def test_membership_is_read_where_the_attack_knows_members(
    tmp_path: Path, attack: float, original: float, ours: float, verdict: str
) -> None:
    result(tmp_path, "original", forget=90.0, mia=original, attack=attack)
    result(tmp_path, "retrain", forget=0.0, mia=1.0)
    result(tmp_path, "unsc_paper", forget=0.5, mia=ours)
    said = {line.figure: line for line in lines(tmp_path)}
    assert said["membership, svhn@long"].verdict == verdict
    by_class = said["accuracy by class, svhn@long, 1"]
    assert by_class.verdict == "reproduced" and "class 0 fares worst: -1.0" in by_class.here
    assert (
        said["accuracy by class, svhn, 2"].verdict == said["latent space, svhn"].verdict == "not testable here: not run"
    )


def test_a_class_fares_as_it_does_against_the_original_of_the_same_trial(tmp_path: Path) -> None:
    """Class 1 loses 3 points in the only trial of the paper's step; against the mean of both originals it gains 1."""
    result(tmp_path, "original", forget=90.0, by_class=(96.0, 94.0))
    result(tmp_path, "original", forget=90.0, by_class=(96.0, 86.0), trial=1)
    result(tmp_path, "unsc_paper", forget=0.5, by_class=(95.0, 91.0))
    said = {line.figure: line for line in lines(tmp_path)}
    assert "class 1 fares worst: -3.0" in said["accuracy by class, svhn@long, 1"].here


def test_membership_is_held_against_retraining_in_the_same_trial(tmp_path: Path) -> None:
    """In the first trial both find 0.9; what retraining finds in another trial says nothing about it."""
    result(tmp_path, "unsc_paper", forget=0.5, mia=0.9)
    for trial, retrained in enumerate((0.9, 0.3)):
        result(tmp_path, "original", forget=90.0, mia=0.1, trial=trial)
        result(tmp_path, "retrain", forget=0.0, mia=retrained, trial=trial)
    said = {line.figure: line for line in lines(tmp_path)}["membership, svhn@long"]
    assert said.verdict == "reproduced" and "0.90 for retraining" in said.here
