"""What figures of a data set are measured on: a comparison's first trial."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_scenario
import torch

from unsc.bench.experiments import Experiment
from unsc.bench.figures.shared.make import draw_all, measure_missing, measures
from unsc.bench.figures.shared.subject import Subject
from unsc.compare.plan import Config
from unsc.compare.tuning import Try, Tuned
from unsc.evaluation import evaluate


class FakeUmap:
    """Takes the first two features."""

    def __init__(self, **settings: object) -> None:
        pass

    def fit_transform(self, features: np.ndarray) -> np.ndarray:
        return features[:, :2]


@pytest.fixture
def experiment() -> Experiment:
    config = Config("tiny_scenario:make", ("unsc",), trials=2, tune_tries=4, shadows=0, classes=(2,))
    return Experiment("table1", config)


def test_all_figures_of_a_data_set(experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=FakeUmap))  # type: ignore[arg-type]
    subject = Subject.of(experiment, tmp_path / "work")
    assert measure_missing(measures(subject), tmp_path / "out" / "tiny") == {}
    drawn = {path.name for path in draw_all(tmp_path / "out")}
    assert drawn == {"pseudo.png", "contour.png", "latent.png"}


def test_networks_are_trained_once_and_forget(experiment: Experiment, tmp_path: Path) -> None:
    subject = Subject.of(experiment, tmp_path)
    weights = next(subject.original.parameters())
    kept = {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    assert list(kept) == ["full-0.safetensors"]
    again = Subject.of(experiment, tmp_path)
    assert torch.equal(next(again.original.parameters()), weights)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")} == kept
    test = tiny_scenario.make().parts_of("test", (2,))
    scores = evaluate(again.unlearned, retain_test=[test["retain_test"]], forget_test=[test["forget_test"]])
    assert scores.forget_test_acc < 5 and scores.retain_test_acc > 90


def test_settings_are_those_of_the_table_once_they_are_chosen(experiment: Experiment, tmp_path: Path) -> None:
    assert Subject.of(experiment, tmp_path).applied.settings["budget"] == 4e-4
    comparison = Subject.of(experiment, tmp_path).comparison
    one = Try({"budget": 2e-4, "stop_mass": 0.05}, 100.0, 0.0, 1.0, 1.0, None)
    Tuned("unsc", {}, (one,)).save(comparison.tuned_path("unsc"))
    assert Subject.of(experiment, tmp_path).applied.settings["budget"] == 2e-4


def test_pseudo_labels_are_of_all_forgotten_training_samples(experiment: Experiment, tmp_path: Path) -> None:
    found = measures(Subject.of(experiment, tmp_path))["pseudo"]()
    assert found["samples"] == 30 and found["forgotten"] == [2]
    assert found["networks"] == {"original": "full-0", "retrained": "without-2-1000"}
