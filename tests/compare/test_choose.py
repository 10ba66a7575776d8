"""One method tuned by itself; the test data stays unread until the settings are chosen."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_scenario
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from unsc.compare import choose as choose_module
from unsc.compare.choose import choose
from unsc.compare.plan import Config, tuning
from unsc.compare.scenarios import Scenario
from unsc.errors import Diverged, InvalidRequest
from unsc.evaluation.accuracy import evaluate
from unsc.methods import Problem, Range, apply, find, method

TINY = "tiny_scenario:make"


class Counted(Dataset):
    """Counts how often a sample was read."""

    def __init__(self, dataset: TensorDataset) -> None:
        self.dataset = dataset
        self.reads = 0

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, i: int) -> tuple:
        self.reads += 1
        return self.dataset[i]


def test_the_choice_is_tested_once(tmp_path: Path) -> None:
    """Its accuracy is that of the method with these settings, computed by hand; a second call repeats nothing."""
    path = tmp_path / "t.json"
    tuned, test = choose("gradient_ascent", TINY, tries=3, seconds=1e9, seed=0, path=path)
    assert len(tuned.tries) == 3
    tiny = tiny_scenario.make()
    training, classes = tuning(Config(TINY, (), seed=0), 4)
    problem = tiny.problem(tiny.recipe(tiny.train, training.seed), classes, seed=training.seed)
    model = apply(find("gradient_ascent"), problem, **tuned.best.settings).model
    assert model is not None
    samples = [(x, int(y)) for x, y in tiny.test]
    forget, retain = ([s for s in samples if (s[1] in classes) is gone] for gone in (True, False))
    expected = evaluate(model, retain_test=_data(retain), forget_test=_data(forget))
    assert test == pytest.approx({"retain_acc": expected.retain_test_acc, "forget_acc": expected.forget_test_acc})
    content = json.loads(path.read_text())
    assert content["test"] == test and content["chosen"] == tuned.best.settings
    again, same = choose("gradient_ascent", TINY, tries=3, seconds=1e9, seed=0, path=path)
    assert again.tries == tuned.tries and same == test


def _data(samples: list) -> Dataset:
    return TensorDataset(torch.stack([x for x, _ in samples]), torch.tensor([y for _, y in samples]))


def test_test_data_is_not_read_before_the_end(
    registered: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(tiny_scenario.points(25, 2))
    made = replace(tiny_scenario.make(), test=counted)
    counted.reads = 0  # whether every class is there was looked at just now
    seen = []

    def watched(problem: Problem, *, lr: float = 0.1) -> nn.Module:
        seen.append(counted.reads)
        return problem.copy()

    def known(name: str) -> Scenario:
        return made

    method(needs=(), search={"lr": Range(0.1, 1.0)})(watched)
    monkeypatch.setattr(choose_module, "scenario", known)
    choose("watched", TINY, tries=4, seconds=1e9, seed=0, path=tmp_path / "t.json")
    assert seen == [0] * 5 and counted.reads > 0


def test_a_method_that_always_diverges_is_said_to(registered: None, tmp_path: Path) -> None:
    def explodes(problem: Problem) -> nn.Module:
        raise Diverged("the loss became nan")

    method(needs=())(explodes)
    with pytest.raises(Diverged, match=r"explodes diverged with every setting.*t\.json"):
        choose("explodes", TINY, tries=2, seconds=1e9, seed=0, path=tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text())["tries"][0]["diverged"] == "the loss became nan"


def test_a_collapsed_network_is_no_choice(registered: None, tmp_path: Path) -> None:
    """Its weights are finite, and it says one class for everything."""

    def collapses(problem: Problem) -> nn.Module:
        model = problem.copy()
        with torch.no_grad():
            list(model.parameters())[-1].copy_(torch.tensor([1e6, 0, 0, 0]))
        return model

    method(needs=("retain",))(collapses)
    with pytest.raises(Diverged, match="collapses diverged with every setting"):
        choose("collapses", TINY, tries=2, seconds=1e9, seed=0, path=tmp_path / "t.json")


def test_a_network_left_in_training_mode_is_tested_in_evaluation_mode(registered: None, tmp_path: Path) -> None:
    """Dropout of everything would leave one class."""

    def in_training(problem: Problem) -> nn.Module:
        return nn.Sequential(problem.copy(), nn.Dropout(1.0)).train()

    method(needs=())(in_training)
    _, test = choose("in_training", TINY, tries=1, seconds=1e9, seed=0, path=tmp_path / "t.json")
    assert test["retain_acc"] > 80


def test_unknown_names_are_refused_before_training(tmp_path: Path) -> None:
    for name, data in (("unsk", TINY), ("unsc", "digit")):
        with pytest.raises(InvalidRequest, match="did you mean"):
            choose(name, data, tries=1, seconds=1.0, seed=0, path=tmp_path / "t.json")
    assert not (tmp_path / "t.json").exists()
