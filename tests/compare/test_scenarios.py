"""Data in three parts that do not overlap, and what is refused."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_scenario
import torch
from torch.utils.data import Subset, TensorDataset

from unsc.batches import Batch
from unsc.compare.scenarios import Scenario, Third, scenario
from unsc.datasets import read
from unsc.errors import InvalidData, InvalidRequest

THIRDS: tuple[Third, ...] = ("train", "validation", "test")


@pytest.fixture(scope="module")
def tiny() -> Scenario:
    return tiny_scenario.make()


def _all(dataset: Any) -> Batch:
    return read(dataset, range(len(dataset)))


def _rows(dataset: Any) -> set[tuple]:
    return {tuple(x.flatten().tolist()) for x in _all(dataset).inputs}


def _classes(dataset: Any) -> set[int]:
    return set(_all(dataset).labels.tolist())


def test_the_digits_fall_into_three_parts() -> None:
    """Every sample of scikit-learn's digits is in one part, and each part has every class in about equal shares."""
    digits = scenario("digits")
    train, validation = digits.train, digits.validation
    assert isinstance(train, Subset) and isinstance(validation, Subset)
    assert [len(train), len(validation), len(digits.labels("test"))] == [958, 240, 599]
    assert len({*train.indices, *validation.indices}) == 958 + 240
    for third in THIRDS:
        counts = digits.labels(third).bincount()
        assert len(counts) == 10 and counts.min() > 0.9 * counts.float().mean()


def test_parts_are_disjoint_and_complete(tiny: Scenario) -> None:
    parts = tiny.parts((1, 3))
    assert {k: len(v) for k, v in parts.items()} == {
        "forget_train": 60, "retain_train": 60, "forget_validation": 40, "retain_validation": 40,
        "forget_test": 50, "retain_test": 50,
    }  # fmt: skip
    forgotten = {"train": parts["forget_train"], "validation": parts["forget_validation"], "test": parts["forget_test"]}
    retained = {"train": parts["retain_train"], "validation": parts["retain_validation"], "test": parts["retain_test"]}
    for third in THIRDS:
        both = forgotten[third], retained[third]
        assert both[0].labels.unique().tolist() == [1, 3] and both[1].labels.unique().tolist() == [0, 2]
        assert {tuple(x.tolist()) for b in both for x in b.inputs} == _rows(getattr(tiny, third))


def test_some_of_each_part_are_where_positions_say(tiny: Scenario) -> None:
    """At most that many of the training data, all different, the same each time, and no more than there are."""
    parts = tiny.parts((1,), most=40)
    assert [len(batch) for batch in parts.values()] == [30, 40, 20, 60, 25, 75]
    where = tiny.positions("train", (1,), most=40)
    assert list(where) == ["forget_train", "retain_train"]
    for name, chosen in where.items():
        assert len(chosen.unique()) == len(chosen)
        assert torch.equal(read(tiny.train, chosen.tolist()).inputs, parts[name].inputs)
        assert torch.equal(parts[name].inputs, tiny.parts((1,), most=40)[name].inputs)


def test_a_problem_is_about_training_data_alone(tiny: Scenario) -> None:
    model = tiny.network()
    problem = tiny.problem(model, (2,), seed=5)
    assert problem.model is model and problem.classes == (2,) and problem.seed == 5 and problem.recipe is tiny.recipe
    assert _rows(problem.forget) | _rows(problem.retain) == _rows(tiny.train)
    assert len(_all(problem.forget)) == 30 and len(_all(problem.retain)) == 90
    assert _classes(problem.forget) == {2}
    assert _rows(tiny.without((2,))) == _rows(problem.retain)
    assert len(_all(tiny.without(()))) == 120


def test_a_later_problem_does_not_give_back_what_is_gone(tiny: Scenario) -> None:
    problem = tiny.problem(tiny.network(), (2,), seed=0, gone=(1,))
    assert _classes(problem.forget) == {2} and _classes(problem.retain) == {0, 3}


@pytest.mark.parametrize(
    ("classes", "gone", "said"),
    [
        ((), (), "names nothing to forget"),
        ((4,), (), "no class 4; its classes are 0 to 3"),
        ((-1,), (), "no class -1; its classes are 0 to 3"),
        ((0, 1, 2, 3), (), "at least one must stay"),
        ((0, 1), (2, 3), "at least one must stay"),
    ],
)
def test_what_cannot_be_forgotten_is_refused(tiny: Scenario, classes: tuple, gone: tuple, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        tiny.problem(tiny.network(), classes, seed=0, gone=gone)


def _labelled(*labels: int) -> TensorDataset:
    return TensorDataset(torch.zeros(len(labels), 4), torch.tensor(labels, dtype=torch.long))


@pytest.mark.parametrize("third", ["train", "validation", "test"])
@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ((2, 2, 2), "part of tiny has one class only"),
        ((0, 1, 3), r"part of tiny has no sample of class \[2\]"),
        ((0, 1, 2, 3, 4), r"part of tiny has labels \[4\]; with 4 classes they must be 0 to 3"),
        ((), "the data set is empty"),
    ],
)
def test_unusable_parts_are_refused(tiny: Scenario, third: str, labels: tuple[int, ...], said: str) -> None:
    with pytest.raises(InvalidData, match=said):
        replace(tiny, **{third: _labelled(*labels)})


def test_scenarios_by_name() -> None:
    assert scenario("tiny_scenario:make").name == "tiny"
    with pytest.raises(InvalidRequest, match="no scenario 'digit'; did you mean digits"):
        scenario("digit")
    with pytest.raises(InvalidRequest, match="digits@paper: digits has no presets"):
        scenario("digits@paper")


MINE = """
import tiny_scenario
import sys
from dataclasses import replace


def scenarios():
    return {"mine": lambda preset: replace(tiny_scenario.make(), name=f"mine with {preset}")}
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that offers a scenario by an entry point, as `pip install` would leave it."""
    info = tmp_path / "mine-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[unsc.scenarios]\nmine = mine_scenarios:scenarios\n")
    (tmp_path / "mine_scenarios.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine_scenarios", raising=False)
    return tmp_path


def test_scenarios_of_other_packages(installed: Path) -> None:
    """Beside our own; what follows the @ goes to the one who makes it."""
    assert scenario("mine").name == "mine with None"
    assert scenario("mine@long").name == "mine with long"
    assert scenario("digits").name == "digits"


def test_a_package_that_cannot_offer_its_scenarios_is_named(installed: Path) -> None:
    (installed / "mine_scenarios.py").write_text("import no_such_package\n")
    with pytest.raises(InvalidRequest, match="the scenarios mine of mine_scenarios:scenarios cannot be loaded"):
        scenario("mine")


def test_what_makes_no_scenario_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "no_scenario.py").write_text("def seven():\n    return 7\n\ndef fails():\n    return 1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidRequest, match=r"no_scenario:seven returned a int; it must return an unsc\.compare"):
        scenario("no_scenario:seven")
    with pytest.raises(InvalidRequest, match=r"no_scenario:fails\(\) failed \(ZeroDivisionError: division by zero\)"):
        scenario("no_scenario:fails")
