"""Records are compared by the same trials, tuning and metrics; no draw shares a record with another."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
import tiny_scenario
import torch
from one_process import InThisProcess

from unsc.compare import Config, chosen_methods, compare
from unsc.compare import run as run_module
from unsc.compare.order import controls_for
from unsc.compare.plan import Training, trials, tuning_request
from unsc.compare.render import write_report
from unsc.compare.scenarios import Scenario
from unsc.compare.scoring import score
from unsc.compare.tuning import tune
from unsc.datasets import read, size_of
from unsc.errors import InvalidRequest
from unsc.logits import accuracy
from unsc.methods import find
from unsc.request import Request

CONFIG = Config(
    "tiny_scenario:make",
    ("retrain", "finetune", "regun"),
    trials=1,
    tune_tries=1,
    shadows=2,
    metrics=("retain_test_acc", "records_acc", "loss_attack_auc", "js_records", "ulira_auc", "rmia_auc"),
    request="records",
)


@pytest.fixture(scope="module")
def tiny() -> Scenario:
    return tiny_scenario.make()


def test_no_two_draws_share_a_record_and_more_trials_change_none() -> None:
    config = replace(CONFIG, trials=4, records=20)
    made = trials(config, 4, 120)
    draws = [set(t.records) for t in made] + [set(tuning_request(config, 4, 120).records or ())]
    assert all(len(draw) == 20 for draw in draws) and not any(a & b for a, b in combinations(draws, 2))
    assert trials(replace(config, trials=2), 4, 120) == made[:2]
    assert tuning_request(replace(config, trials=2), 4, 120) == tuning_request(config, 4, 120)
    assert len(trials(CONFIG, 4, 200)[0].records) == 10  # a twentieth
    for trial in made:
        assert trial.classes == trial.later == ()
        assert {x.records for x in (trial.retrained, *trial.shadow_retrained)} == {trial.records}
        assert not any(x.records for x in (trial.original, *trial.shadow_originals, *trial.references))


def test_a_networks_key_names_its_records() -> None:
    keys = {Training(1, records=(1, 2)).key, Training(1, records=(12,)).key, Training(2, records=(1, 2)).key}
    assert len(keys) == 3 and "full-1" not in keys


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"request": "people"}, "request='people'; give classes or records"),
        ({"classes": (1,)}, "give one of the two"),
        ({"records": 4}, "records=4; give 5 or more"),
        ({"request": "classes", "records": 10}, "records=10; give 5 or more, with request='records'"),
    ],
)
def test_bad_configurations_are_refused(wrong: dict, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        replace(CONFIG, **wrong)


def test_too_many_records_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"40 records in each of 2 trials.*from 100 training samples"):
        trials(replace(CONFIG, trials=2, records=40), 4, 100)


def test_a_scenario_gives_records_and_keeps_half_of_validation_to_choose_by(tiny: Scenario) -> None:
    request = Request.for_records([0, 4, 5], 4)  # of classes 0 and 1
    problem = tiny.problem(tiny.network(), request, seed=0)
    assert (size_of(problem.forget), size_of(problem.retain), size_of(problem.validation)) == (3, 117, 40)
    assert size_of(tiny.problem(tiny.network(), [0], seed=0).validation) == 0  # type: ignore[arg-type]
    parts = tiny.parts(request)
    assert torch.equal(parts["forget_train"].labels, torch.tensor([0, 0, 1]))
    assert parts["forget_test"].labels.unique().tolist() == [0, 1]
    assert len(parts["retain_test"]) == size_of(tiny.test)
    given = read(problem.validation, range(40)).inputs
    judged = parts["retain_validation"].inputs
    assert len(judged) == 40 and not torch.isin(given, judged).any()
    unseen, records = tiny.to_choose_by(request)
    assert torch.equal(unseen.inputs, judged) and torch.equal(records.inputs, parts["forget_train"].inputs)
    assert size_of(tiny.without((), [0, 4, 5])) == 117


def test_settings_are_chosen_by_unseen_samples_and_an_attack(tiny: Scenario) -> None:
    """Of a network that is as sure of the records as of the others: accuracy alone is left in the score."""
    request = Request.for_records(range(10), 4)
    problem = tiny.problem(tiny.recipe(tiny.train, 0), request, seed=0)
    unseen, _ = tiny.to_choose_by(request)
    same = tune(find("finetune"), problem, (unseen, unseen), tries=1, seconds=60).best
    assert same.score == pytest.approx(score(same.retain_acc / accuracy(problem.model, unseen), 1.0))
    surest = unseen[problem.model(unseen.inputs).softmax(dim=1).amax(dim=1).argsort()[-3:]]
    assert tune(find("finetune"), problem, (unseen, surest), tries=1, seconds=60).best.score < same.score


def test_methods_and_controls_are_those_for_records() -> None:
    chosen = chosen_methods("all", "records")
    assert "regun" in chosen and not {"logit_mask", "bias_shift", "svd"} & set(chosen)
    assert chosen_methods("regun", "records") == ("retrain", "regun", *controls_for("records"))
    assert controls_for("records") == ["finetune", "head_only"]
    assert "regun" not in chosen_methods("all") and controls_for("classes") == ["bias_shift", "head_only", "logit_mask"]


def test_a_comparison_of_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run_module, "Workers", InThisProcess)
    finished = compare(CONFIG, tmp_path / "run")
    assert finished.failed == {}
    results = write_report(finished, "unsc compare")
    assert set(results.measured()) == set(CONFIG.metrics or ())
    for name in ("original", "retrain", "finetune", "regun"):
        (cell,) = results.cells[name]
        assert cell["records"] == 6 and cell["classes"] == [] and cell["diverged"] is None
        assert cell["measured"]["skipped"] == {}
    report = (tmp_path / "run" / "report.md").read_text()
    assert "other forgotten records" in report and "records (%)" in report
    with pytest.raises(InvalidRequest, match="logit_mask forgets classes only, not records"):
        compare(replace(CONFIG, methods=("logit_mask",)), tmp_path / "other")


def test_a_folder_from_before_records_still_resumes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its configuration does not say what kind of request it has: classes."""
    monkeypatch.setattr(run_module, "Workers", InThisProcess)
    config = Config("tiny_scenario:make", ("finetune",), 1, tune_tries=0, shadows=0, metrics=("retain_test_acc",))
    compare(config, tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    content = json.loads(path.read_text())
    del content["config"]["request"], content["config"]["records"]
    path.write_text(json.dumps(content))
    assert compare(config, tmp_path / "run").measured == 0
    with pytest.raises(InvalidRequest, match="request is 'classes' there and 'records' here"):
        compare(replace(config, request="records"), tmp_path / "run")
