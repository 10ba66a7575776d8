"""The contributor's examples: a data set and a figure are one file each, found by name, and gone when it is gone."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from unsc.bench.data.shared.image_data import DATA
from unsc.bench.datasets import load
from unsc.bench.experiments import Experiment, experiments
from unsc.bench.figures.shared.figure import FIGURES
from unsc.bench.figures.shared.make import draw_all, measure_missing, measures
from unsc.bench.figures.shared.subject import Subject
from unsc.bench.scenarios import scenarios
from unsc.compare.plan import Config
from unsc.errors import InvalidRequest

EXAMPLES = Path(__file__).parents[2] / "examples" / "contributing"


def run_file(name: str) -> None:
    """What Python does with a module of the room when it is found there."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_a_data_set_is_one_file() -> None:
    """It can be read, compared on and experimented with by its name, until its file is gone."""
    with DATA.temporarily():
        run_file("data_set")
        split = load("stripes")
        assert split.train.tensors[0].shape == (400, 1, 8, 8) and split.channels == 1
        assert torch.equal(split.train.tensors[1].bincount(), torch.tensor([100] * 4))
        made = scenarios()["stripes"](None)
        assert made.num_classes == 4 and len(made.labels("validation")) == 40
        model = made.recipe(made.train, 0)
        images, labels = split.test.tensors
        assert (model(images).argmax(dim=1) == labels).float().mean() > 0.9
        (experiment,) = experiments("table1", "stripes")
        assert experiment.config.classes == (2,)
        assert [e.config.classes for e in experiments("classes", "stripes")] == [(0,), (1,), (2,), (3,)]
        with pytest.raises(InvalidRequest, match="there is a data set stripes already"):
            run_file("data_set")
    with pytest.raises(InvalidRequest, match="no data set 'stripes'"):
        load("stripes")
    assert "stripes" not in scenarios()


def test_a_figure_is_one_file(tmp_path: Path) -> None:
    """It is measured on a data set's networks and drawn from its numbers, until its file is gone."""
    config = Config("tiny_scenario:make", ("unsc",), trials=1, tune_tries=0, shadows=0, classes=(2,))
    with FIGURES.temporarily():
        run_file("figure")
        subject = Subject.of(Experiment("table1", config), tmp_path / "work")
        found = measures(subject)["confidence"]()
        assert found["data"] == "tiny_scenario:make" and found["samples"] == 25
        assert all(sum(values) == pytest.approx(1) for values in found["shares"].values())
        assert measure_missing({"confidence": lambda: found}, tmp_path / "out" / "tiny") == {}
        (picture,) = draw_all(tmp_path / "out")
        assert picture.name == "confidence.png" and picture.read_bytes().startswith(b"\x89PNG")
    assert "confidence" not in FIGURES.all()
    assert draw_all(tmp_path / "out") == []
