"""Settings are chosen on validation data alone, within a budget, and a search goes on as if never stopped."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from unsc.batches import Batch
from unsc.compare import tuning as tune_module
from unsc.compare.scoring import LOWEST, score
from unsc.compare.tuning import Search, Tuned, tune
from unsc.cost import Cost
from unsc.errors import Diverged, InvalidData, InvalidRequest
from unsc.logits import accuracy
from unsc.methods import Choice, Method, Problem, Range, methods
from unsc.request import Request

PUBLISHED = 0.25


def _threshold(t: float) -> nn.Module:
    """Says 0 for numbers below `t`, 1 for others."""
    model = nn.Linear(1, 2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[-1.0], [1.0]]))
        model.bias.copy_(torch.tensor([t, -t]))
    return model


# Retained: 0.5 to 99.5, all of class 0. Forgotten: -1, -1, of class 1. A threshold of t >= 0 is right on about t % of
# the retained samples and on none of the forgotten ones, and the original, of 50, has half of the retained ones right.
VALIDATION = (
    Batch(torch.arange(100.0)[:, None] + 0.5, torch.zeros(100, dtype=torch.long)),
    Batch(-torch.ones(2, 1), torch.ones(2, dtype=torch.long)),
)


@pytest.fixture
def problem() -> Problem:
    return Problem(_threshold(50.0), Request.for_classes([1], 2), seed=4)


def _method(run: Callable[..., nn.Module], **search: Any) -> Method:
    return Method(run.__name__, run, (), ("classes", "records"), search, False)


def by_level(problem: Problem, *, level: float = PUBLISHED, kind: str = "a") -> nn.Module:
    return _threshold(100 * level)


LEVEL = _method(by_level, level=Range(0.0, 1.0), kind=Choice(("a", "b")))


def test_accuracy_by_hand() -> None:
    assert [accuracy(_threshold(t), VALIDATION[0]) for t in (0.0, 25.0, 100.0)] == [0, 25, 100]
    assert [accuracy(_threshold(t), VALIDATION[1]) for t in (0.0, -2.0)] == [0, 100]
    many = Batch(torch.arange(1000.0)[:, None], torch.zeros(1000, dtype=torch.long))
    assert accuracy(_threshold(700.5), many) == pytest.approx(70.1)


def test_the_best_on_validation_wins(problem: Problem) -> None:
    """All forget everything, so that what is kept, as a share of the original's, decides."""
    tuned = tune(LEVEL, problem, VALIDATION, tries=12, seconds=1e9)
    assert len(tuned.tries) == 12 and tuned.tries[0].settings == {"level": PUBLISHED, "kind": "a"}
    for one in tuned.tries:
        right = sum(i + 0.5 < 100 * one.settings["level"] for i in range(100))
        assert (one.retain_acc, one.forget_acc) == (right, 0)
        assert one.score == pytest.approx(score(right / 50, 1.0)) and one.diverged is None
    assert tuned.best.score == max(a.score for a in tuned.tries) > score(2 * PUBLISHED, 1.0)
    assert tuned.best.retain_acc == max(a.retain_acc for a in tuned.tries)


def test_remembering_counts_against_settings(problem: Problem) -> None:
    """Forgotten samples at -1 and 60: thresholds of 25 and of the original's 50 are right on one, one of 90 on none."""
    forgotten = Batch(torch.tensor([[-1.0], [60.0]]), torch.ones(2, dtype=torch.long))
    either = _method(by_level, level=Choice((PUBLISHED, 0.9)))
    tuned = tune(either, problem, (VALIDATION[0], forgotten), tries=6, seconds=1e9)
    found = {(a.settings["level"], a.retain_acc, a.forget_acc, a.score) for a in tuned.tries}
    assert found == {(PUBLISHED, 25.0, 50.0, score(0.5, 0.0)), (0.9, 90.0, 0.0, score(1.8, 1.0))}


def test_published_settings_win_ties(problem: Problem) -> None:
    def indifferent(problem: Problem, *, lr: float = 0.3) -> nn.Module:
        return _threshold(40.0)

    tuned = tune(_method(indifferent, lr=Range(0.1, 1.0, log=True)), problem, VALIDATION, tries=5, seconds=1e9)
    assert len({a.settings["lr"] for a in tuned.tries}) == 5
    assert tuned.best is tuned.tries[0] and tuned.best.settings == {"lr": 0.3}


@pytest.mark.parametrize("name", methods())
def test_every_method_starts_with_its_published_settings(name: str) -> None:
    """They lie within its search space, or the search could not begin with them."""
    method = methods()[name]
    assert Search(method, seed=0).ask() == {key: method.defaults[key] for key in method.search}


@pytest.mark.parametrize("done", [1, 3, 11])
def test_a_search_goes_on_as_if_never_stopped(problem: Problem, tmp_path: Path, done: int) -> None:
    """Past the ten random settings that the sampler begins with, too."""
    calls = []

    def run(problem: Problem, *, level: float = PUBLISHED, kind: str = "a") -> nn.Module:
        calls.append(level)
        if len(calls) == done + 1:
            raise KeyboardInterrupt
        return _threshold(100 * level)

    whole = tune(LEVEL, problem, VALIDATION, tries=14, seconds=1e9)
    path = tmp_path / "tuned.json"
    with pytest.raises(KeyboardInterrupt):
        tune(replace(LEVEL, run=run), problem, VALIDATION, tries=14, seconds=1e9, path=path)
    assert len(Tuned.load(path).tries) == done
    resumed = tune(LEVEL, problem, VALIDATION, tries=14, seconds=1e9, path=path)
    assert [a.settings for a in resumed.tries] == [a.settings for a in whole.tries]
    assert Tuned.load(path).tries == resumed.tries
    assert json.loads(path.read_text())["chosen"] == resumed.best.settings


def test_a_finished_search_is_not_repeated(problem: Problem, tmp_path: Path) -> None:
    first = tune(LEVEL, problem, VALIDATION, tries=2, seconds=1e9, path=tmp_path / "t.json")

    def never(problem: Problem, *, level: float = PUBLISHED, kind: str = "a") -> nn.Module:
        raise AssertionError("it was run again")

    again = tune(replace(LEVEL, run=never), problem, VALIDATION, tries=2, seconds=1e9, path=tmp_path / "t.json")
    assert again.tries == first.tries


@pytest.mark.parametrize(("seconds", "tries"), [(1.0, 1), (10.0, 1), (25.0, 3), (30.0, 3), (1e9, 6)])
def test_the_time_and_the_number_of_tries_are_bounded(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, tries: int
) -> None:
    """Every try takes 10 seconds by the clock; one is begun as long as less than all of the time is spent."""
    real = tune_module.apply
    monkeypatch.setattr(tune_module, "apply", lambda *a, **k: replace(real(*a, **k), cost=Cost(10.0, None)))
    path = tmp_path / "t.json"
    assert len(tune(LEVEL, problem, VALIDATION, tries=6, seconds=seconds, path=path).tries) == tries
    assert len(tune(LEVEL, problem, VALIDATION, tries=6, seconds=seconds, path=path).tries) == tries


def test_without_knobs_there_is_one_try(problem: Problem) -> None:
    tuned = tune(_method(by_level), problem, VALIDATION, tries=8, seconds=1e9)
    assert [a.settings for a in tuned.tries] == [{}] and tuned.best.score == score(2 * PUBLISHED, 1.0)


def test_divergence_scores_nothing_and_is_kept(problem: Problem, tmp_path: Path) -> None:
    """Neither lost weights nor outputs that are not finite can win, and both are among the tries."""

    def fragile(problem: Problem, *, level: float = PUBLISHED) -> nn.Module:
        if level > 0.5:
            raise Diverged(f"too much: {level}")
        return _threshold(100 * level)

    method = _method(fragile, level=Range(0.0, 1.0))
    tuned = tune(method, problem, VALIDATION, tries=12, seconds=1e9, path=tmp_path / "t.json")
    assert Tuned.load(tmp_path / "t.json").tries == tuned.tries
    lost = [a for a in tuned.tries if a.settings["level"] > 0.5]
    assert lost and all(a.score == LOWEST and a.diverged == f"too much: {a.settings['level']}" for a in lost)
    assert all(a.diverged is None and a.score > LOWEST for a in tuned.tries if a not in lost)
    assert PUBLISHED <= tuned.best.settings["level"] <= 0.5


def test_outputs_that_are_not_finite_score_nothing(problem: Problem) -> None:
    """Though its largest output would happen to be right everywhere."""

    class Nan(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([torch.full((len(x),), math.nan), x[:, 0]], dim=1) * self.scale

    retained = [(torch.ones(1), 0)] * 3
    tuned = tune(_method(lambda problem: Nan()), replace(problem, retain=retained), VALIDATION, tries=1, seconds=1e9)
    assert tuned.best.score == LOWEST and "NaN" in (tuned.best.diverged or "")


def test_a_file_of_something_else_is_not_taken_up(problem: Problem, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    tune(LEVEL, problem, VALIDATION, tries=1, seconds=1e9, path=path)
    budget: Any = {"tries": 2, "seconds": 1e9, "path": path}
    for other in (
        replace(problem, seed=5),
        replace(problem, request=Request.for_classes([0], 2)),
        replace(problem, request=Request.for_records(None, 2)),
    ):
        with pytest.raises(InvalidRequest, match="holds the tuning of by_level on another problem; name another file"):
            tune(LEVEL, other, VALIDATION, **budget)
    with pytest.raises(InvalidRequest, match="holds the tuning of by_level"):
        tune(replace(LEVEL, name="another"), problem, VALIDATION, **budget)
    for content in ("", "[]", "{}", '{"tries": [{"x": 1}]}'):
        path.write_text(content)
        with pytest.raises(InvalidData, match=r"t\.json does not hold a method's tuning"):
            tune(LEVEL, problem, VALIDATION, **budget)


def test_scores_by_an_older_rule_are_not_mixed_with_new_ones(problem: Problem, tmp_path: Path) -> None:
    """A search that is finished is left as it is."""
    path = tmp_path / "t.json"
    first = tune(LEVEL, problem, VALIDATION, tries=2, seconds=1e9, path=path)
    content = json.loads(path.read_text())
    del content["budget"]["score"]
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidRequest, match="scored by another rule; name another file, or tune again"):
        tune(LEVEL, problem, VALIDATION, tries=3, seconds=1e9, path=path)
    assert tune(LEVEL, problem, VALIDATION, tries=2, seconds=1e9, path=path).tries == first.tries


def test_a_search_of_other_data_is_not_taken_up(problem: Problem, tmp_path: Path) -> None:
    """The same method, seed and classes: nothing else in the file would tell."""
    path = tmp_path / "t.json"
    budget: Any = {"seconds": 1e9, "path": path}
    first = tune(LEVEL, problem, VALIDATION, tries=1, data="digits", **budget)
    assert tune(LEVEL, problem, VALIDATION, tries=1, data="digits", **budget).tries == first.tries
    with pytest.raises(InvalidRequest, match="holds the tuning of by_level on another problem"):
        tune(LEVEL, problem, VALIDATION, tries=2, data="svhn", **budget)


def test_tries_of_another_search_are_not_mixed_with_new_ones(problem: Problem, tmp_path: Path) -> None:
    """The sampler would take their scores for those of settings that were never tried. A finished search is left."""
    budget: Any = {"seconds": 1e9, "path": tmp_path / "t.json"}
    first = tune(LEVEL, problem, VALIDATION, tries=3, **budget)
    wider = replace(LEVEL, search={"level": Range(0.0, 0.5), "kind": LEVEL.search["kind"]})
    with pytest.raises(InvalidRequest, match="was searched in another way then; name another file, or tune again"):
        tune(wider, problem, VALIDATION, tries=4, **budget)
    assert tune(wider, problem, VALIDATION, tries=3, **budget).tries == first.tries


@pytest.mark.parametrize("budget", [{"tries": 0, "seconds": 1.0}, {"tries": 1, "seconds": 0.0}])
def test_no_budget_is_refused(problem: Problem, budget: dict) -> None:
    with pytest.raises(InvalidRequest, match="give at least one try and more than 0 seconds"):
        tune(LEVEL, problem, VALIDATION, **budget)
