"""A comparison is done once, goes on where it was stopped, and one method's fault is not another's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_scenario
import torch
from one_process import InThisProcess
from rich.console import Console
from torch import nn

from unsc.cli.tables import show_results
from unsc.compare import Config, Finished, chosen_methods, compare
from unsc.compare import run as run_module
from unsc.compare.comparison import Comparison
from unsc.compare.networks import Networks
from unsc.compare.plan import trials, tuning
from unsc.compare.render import by_group, headline, report, write_report
from unsc.compare.results import Results, write
from unsc.datasets import size_of
from unsc.errors import Diverged, InvalidData, InvalidRequest
from unsc.methods import Problem, Range, method, methods

DISTANCES = ("js_forget", "js_retain", "agreement_forget", "tug_of_war", "cka_forget", "retain_gap", "forget_gap")
METRICS = ("retain_test_acc", "forget_test_acc", "forget_train_acc")
CONFIG = Config("tiny_scenario:make", ("retrain", "finetune", "logit_mask"), 2, 0, 2, 30.0, 2, METRICS)
QUICK = replace(CONFIG, trials=1, tune_tries=0, shadows=0)


class NoProcess:
    """There is nothing to do."""

    def __init__(self, do: Callable, count: int) -> None:
        raise AssertionError("processes were started")


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "Workers", InThisProcess)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """One comparison, never stopped. Tests must not change its folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "Workers", InThisProcess)
        return compare(CONFIG, tmp_path_factory.mktemp("whole") / "run")


def _files(folder: Path) -> dict[str, int]:
    """Every file by its name, with the time at which it was written."""
    return {str(p.relative_to(folder)): p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}


def _values(finished: Finished) -> dict[str, list[dict[str, float]]]:
    cells = Results.read(finished.comparison).cells
    return {name: [{k: v["value"] for k, v in c["measured"]["values"].items()} for c in cells[name]] for name in cells}


def _copy(whole: Finished, folder: Path) -> Path:
    """The same comparison in another folder."""
    for name in _files(whole.comparison.folder):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((whole.comparison.folder / name).read_bytes())
    return folder


def test_a_comparison_writes_a_file_for_each_piece(whole: Finished) -> None:
    assert whole.failed == {}
    made = trials(CONFIG, 4)
    # None of the metrics needs shadows or reference models.
    networks = {t.key for trial in made for t in (trial.original, trial.retrained, trial.twin) if t is not None}
    networks.add(tuning(CONFIG, 4)[0].key)
    assert len(networks) == 2 * 3 + 1
    assert set(_files(whole.comparison.folder)) == {
        "config.json",
        *(f"models/{key}.safetensors" for key in networks),
        "tuned/finetune.json",  # the others have nothing to tune
        *(f"results/trial-{i}/{name}.json" for i in (0, 1) for name in ("original", *CONFIG.methods)),
    }
    assert all(set(row) == set(METRICS) for rows in _values(whole).values() for row in rows)


def test_the_numbers_are_what_such_models_must_have(whole: Finished) -> None:
    """The original knows the class, retraining and the mask do not name it, and all know the rest."""
    values = _values(whole)
    for i in (0, 1):
        assert values["original"][i]["forget_test_acc"] > 80
        assert values["retrain"][i]["forget_test_acc"] == values["logit_mask"][i]["forget_test_acc"] == 0
        assert all(rows[i]["retain_test_acc"] > 80 for rows in values.values())


def test_retraining_is_not_judged_by_itself(whole: Finished, tmp_path: Path) -> None:
    """The row is another retrained network than the one that distances are measured to; without one, they are `?`."""
    config = replace(QUICK, methods=("retrain", "finetune"), metrics=(*DISTANCES, "seconds"))
    finished = compare(config, tmp_path / "alone")
    assert list(_values(finished)["retrain"][0]) == ["seconds"]
    assert set(_values(finished)["finetune"][0]) == {*DISTANCES, "seconds"}
    results = Results.read(finished.comparison)
    rows = [grid.blocks[0][1] for grid in by_group(results) if grid.title != "Cost"]
    assert {row[0] for row in rows} == {"retrain"} and {cell for row in rows for cell in row[1:]} == {"?"}
    write(results, finished.comparison, seconds=1.0)
    content = json.loads((tmp_path / "alone/results.json").read_text())
    assert all(content["summary"]["retrain"][name] is None for name in DISTANCES)
    assert all(content["metrics"][name]["reference"] is None for name in DISTANCES)
    assert all(content["metrics"][name]["fooled_by"] is None for name in DISTANCES)
    two = _values(compare(replace(config, shadows=2), tmp_path / "two"))["retrain"][0]
    assert set(two) == {*DISTANCES, "seconds"} and two["js_forget"] > 1e-6


def test_the_same_again_does_nothing(whole: Finished, tmp_path: Path) -> None:
    folder = _copy(whole, tmp_path)
    before = _files(folder)
    compare(CONFIG, folder)
    after = _files(folder)
    assert {name for name in after if after[name] != before.get(name)} == {"config.json"}


def test_a_finished_comparison_is_known_to_be_at_once(
    whole: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its results alone: no process starts, though the networks are gone."""
    assert whole.measured == 2 * 4
    folder = _copy(whole, tmp_path)
    for path in folder.rglob("models/*"):
        path.unlink()
    monkeypatch.setattr(run_module, "Workers", NoProcess)
    again = compare(CONFIG, folder)
    assert (again.measured, again.failed) == (0, {}) and _values(again) == _values(whole)


def test_what_is_missing_is_done_and_nothing_else(whole: Finished, tmp_path: Path) -> None:
    folder = _copy(whole, tmp_path)
    before = _files(folder)
    (folder / "results/trial-1/finetune.json").unlink()
    again = compare(CONFIG, folder)
    after = _files(folder)
    assert set(after) == set(before)
    assert {n for n in after if after[n] != before[n]} == {"config.json", "results/trial-1/finetune.json"}
    assert _values(again) == _values(whole)


def test_a_killed_run_ends_with_the_same_numbers(whole: Finished, tmp_path: Path) -> None:
    """Half of the networks, the tuning after one of two tries, and half of the results."""
    folder = _copy(whole, tmp_path)
    for path in sorted(folder.rglob("models/*"))[::2] + sorted(folder.rglob("results/*/*"))[::2]:
        path.unlink()
    tuned = folder / "tuned" / "finetune.json"
    content = json.loads(tuned.read_text())
    settings = [one["settings"] for one in content["tries"]]
    assert len(settings) == 2
    tuned.write_text(json.dumps(content | {"tries": content["tries"][:1]}))
    again = compare(CONFIG, folder)
    assert again.failed == {} and set(_files(folder)) == set(_files(whole.comparison.folder))
    assert [a["settings"] for a in json.loads(tuned.read_text())["tries"]] == settings
    assert _values(again) == _values(whole)


def test_methods_and_trials_may_be_added(tmp_path: Path) -> None:
    first = compare(QUICK, tmp_path)
    before = _files(tmp_path)
    more = compare(replace(QUICK, methods=("gradient_ascent", "retrain"), trials=2), tmp_path)
    after = _files(tmp_path)
    assert {name for name in before if after[name] != before[name]} == {"config.json"}
    assert set(_values(more)) == {"original", "gradient_ascent", "retrain", "finetune", "logit_mask"}
    assert _values(more)["retrain"][:1] == _values(first)["retrain"] and len(_values(more)["retrain"]) == 2
    kept = json.loads((tmp_path / "config.json").read_text())["config"]
    assert kept["methods"] == ["retrain", "finetune", "logit_mask", "gradient_ascent"] and kept["trials"] == 2
    compare(QUICK, tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["config"] == kept


def test_comparisons_may_share_their_networks(tmp_path: Path) -> None:
    compare(QUICK, tmp_path / "a", models=tmp_path / "networks")
    before = _files(tmp_path / "networks")
    other = compare(replace(QUICK, judge_samples=10, shadows=2), tmp_path / "b", models=tmp_path / "networks")
    assert not (tmp_path / "a/models").exists() and not (tmp_path / "b/models").exists()
    assert before.items() < _files(tmp_path / "networks").items()
    assert other.failed == {}


def test_fewer_samples_are_judged_and_retained_if_so_asked(registered: None, tmp_path: Path) -> None:
    """Metrics on references too, which must know what they saw of just those samples."""
    sizes = []

    def counts(problem: Problem) -> nn.Module:
        sizes.append((size_of(problem.forget), size_of(problem.retain)))
        return problem.copy()

    method(needs=())(counts)
    config = replace(
        QUICK, methods=("counts",), judge_samples=12, retain_samples=50, shadows=2, metrics=(*METRICS, "rmia_auc")
    )
    config = replace(config, forget_samples=20)
    finished = compare(config, tmp_path)
    (cell,) = Results.read(finished.comparison).cells["counts"]
    assert finished.failed == {} and cell["measured"]["skipped"] == {}
    judged = {name: v["n"] for name, v in cell["measured"]["values"].items() if name in METRICS}
    assert {n for name, n in judged.items() if "train" in name} <= {12}
    assert judged["forget_test_acc"] == 25 and judged["retain_test_acc"] == 75  # test data is judged in full
    assert set(sizes) == {(20, 50)}


def test_given_settings_are_for_all_methods_or_for_one(tmp_path: Path) -> None:
    given = (("epochs", 2), ("finetune.lr", 0.5), ("other.lr", 0.1))
    names = ("finetune", "finetune[lr=0.25]", "gradient_ascent")
    comparison = Comparison(tmp_path, replace(QUICK, methods=names, settings=given))
    assert comparison.settings("finetune") == {"epochs": 2, "lr": 0.5}
    assert comparison.settings("finetune[lr=0.25]") == {"epochs": 2}  # its name decides
    assert comparison.settings("gradient_ascent") == {"epochs": 2}


def test_no_network_is_retrained_that_nothing_is_compared_with(tmp_path: Path) -> None:
    config = replace(QUICK, methods=("finetune",), classes=(1,))
    finished = compare(config, tmp_path / "alone")
    assert finished.failed == {} and set(_values(finished)["finetune"][0]) == set(METRICS)
    assert [path.stem for path in (tmp_path / "alone/models").iterdir()] == ["full-0"]
    for changed in ({"methods": ("retrain", "finetune")}, {"metrics": (*METRICS, "tug_of_war")}):
        compare(replace(config, **changed), tmp_path / str(changed))
        assert len(list((tmp_path / str(changed) / "models").iterdir())) == 2


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seed": 3}, "seed is 0 there and 3 here"),
        ({"shadows": 3}, "shadows is 2 there and 3 here"),
        ({"tune_tries": 1}, "tune_tries is 2 there and 1 here"),
        ({"metrics": None}, r"metrics is \['retain_test_acc', .*\] there and None here"),
    ],
)
def test_another_comparison_is_not_mixed_in(whole: Finished, tmp_path: Path, changed: dict, said: str) -> None:
    (tmp_path / "config.json").write_bytes((whole.comparison.folder / "config.json").read_bytes())
    with pytest.raises(InvalidRequest, match=f"holds another comparison: {said}; name another folder with --out"):
        compare(replace(CONFIG, **changed), tmp_path)
    assert list(_files(tmp_path)) == ["config.json"]


def test_results_of_networks_that_were_trained_otherwise_are_not_mixed_in(whole: Finished, tmp_path: Path) -> None:
    """Also where nothing is left to do: what is kept of it is said to be of today's training. Old files do not say."""
    folder = _copy(whole, tmp_path)
    content = json.loads((folder / "config.json").read_text())
    assert content["trained"] == {}
    (folder / "config.json").write_text(json.dumps({**content, "trained": {"epochs": 20}}))
    with pytest.raises(InvalidRequest, match=r"were trained by \{'epochs': 20\}, and .* is now \{\}; name"):
        compare(CONFIG, folder)
    (folder / "config.json").write_text(json.dumps({k: v for k, v in content.items() if k != "trained"}))
    assert compare(CONFIG, folder).measured == 0


def test_a_comparison_is_replaced_if_so_asked(tmp_path: Path) -> None:
    """With all that it wrote, and nothing that somebody else put there; a mistake is found before."""
    compare(replace(QUICK, seed=3), tmp_path / "run")
    (tmp_path / "run/notes.txt").write_text("precious")
    before = _files(tmp_path / "run")
    with pytest.raises(InvalidRequest, match="no metric"):
        compare(replace(QUICK, metrics=("forget_tst_acc",)), tmp_path / "run", overwrite=True)
    assert _files(tmp_path / "run") == before
    replaced = compare(QUICK, tmp_path / "run", overwrite=True)
    assert replaced.failed == {} and _values(replaced) == _values(compare(QUICK, tmp_path / "fresh"))
    assert set(_files(tmp_path / "run")) == {"notes.txt", *_files(tmp_path / "fresh")}
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/config.json").write_text('{"config": {"chapters": 7}}')
    with pytest.raises(InvalidRequest, match="name another folder with --out"):
        compare(QUICK, tmp_path / "thesis", overwrite=True)
    assert json.loads((tmp_path / "thesis/config.json").read_text()) == {"config": {"chapters": 7}}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"config": 3}', '{"config": {}}', '{"classes": [3]}'])
def test_a_folder_with_something_else_is_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(InvalidRequest, match="name another folder with --out"):
        compare(QUICK, tmp_path)
    assert (tmp_path / "config.json").read_text() == content and len(_files(tmp_path)) == 1


def test_a_folder_with_a_thesis_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(InvalidRequest, match="holds something else; name another folder with --out"):
        compare(QUICK, tmp_path)
    with pytest.raises(InvalidRequest, match=r"thesis\.txt is not a folder"):
        compare(QUICK, tmp_path / "thesis.txt")
    assert list(_files(tmp_path)) == ["thesis.txt"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"methods": ("finetun",)}, "no method 'finetun'; did you mean finetune"),
        ({"metrics": ("forget_tst_acc",)}, "no metric 'forget_tst_acc'; did you mean forget_test_acc"),
        ({"metrics": ("rmia_auc",)}, "the metric rmia_auc needs references; give --shadows 2 or more"),
        ({"data": "digit"}, "no scenario 'digit'; did you mean digits"),
        ({"classes": (4,)}, r"classes=\[4\]; give at least one of 0 to 3"),
    ],
)
def test_mistakes_are_found_before_anything_is_written(tmp_path: Path, changed: dict, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        compare(replace(QUICK, **changed), tmp_path / "run")
    with pytest.raises(InvalidRequest, match="jobs=-1; it must be at least 1"):
        compare(QUICK, tmp_path / "run", jobs=-1)
    assert not (tmp_path / "run").exists()


def test_a_fault_of_one_method_leaves_the_others(registered: None, tmp_path: Path) -> None:
    """One raises an error of its own, one an error of this package; one needs what is not there."""

    def has_a_bug(problem: Problem, *, lr: float = 1.0) -> nn.Module:
        raise ZeroDivisionError("a bug in somebody's method")

    def refuses(problem: Problem) -> nn.Module:
        raise InvalidRequest("not with this network")

    method(needs=(), search={"lr": Range(0.5, 1.0)})(has_a_bug)
    method(needs=())(refuses)
    config = replace(QUICK, methods=("retrain", "has_a_bug", "refuses", "logit_mask"), tune_tries=1)
    finished = compare(config, tmp_path)
    assert set(finished.failed) == {"tune has_a_bug", "judge trial 0 has_a_bug", "judge trial 0 refuses"}
    assert finished.failed["judge trial 0 refuses"] == "not with this network"
    assert "ZeroDivisionError: a bug in somebody's method" in finished.failed["tune has_a_bug"]
    values = _values(finished)
    assert values["has_a_bug"] == values["refuses"] == []
    assert all(len(values[name]) == 1 for name in ("original", "retrain", "logit_mask"))
    assert "| has_a_bug | – | –" in report(Results.read(finished.comparison), "unsc compare")


def test_divergence_is_a_result(registered: None, tmp_path: Path) -> None:
    """With the reason, and marked in the table; without a model there are no values, and others have theirs."""

    def explodes(problem: Problem) -> nn.Module:
        raise Diverged("the loss became nan at step 7")

    def collapses(problem: Problem) -> nn.Module:
        model = problem.copy()
        with torch.no_grad():
            *_, weight, bias = model.parameters()
            weight.zero_()
            bias.copy_(torch.eye(4)[0])
        return model

    method(needs=())(explodes)
    method(needs=())(collapses)
    finished = compare(replace(QUICK, methods=("retrain", "explodes", "collapses")), tmp_path)
    assert finished.failed == {}
    results = Results.read(finished.comparison)
    assert results.diverged("explodes") == ["the loss became nan at step 7"]
    assert results.values("explodes", "retain_test_acc") == []
    assert "collapsed" in results.diverged("collapses")[0]
    assert len(results.values("collapses", "retain_test_acc")) == 1
    rows = [row[0] for block in headline(results).blocks for row in block]
    assert rows == ["original", "retrain", "collapses †", "explodes †", "better", "fooled by"]
    assert "- `explodes`: the loss became nan at step 7" in report(results, "unsc compare")


def test_a_method_that_diverges_on_shadows_has_its_other_metrics(registered: None, tmp_path: Path) -> None:
    def fickle(problem: Problem) -> nn.Module:
        if problem.seed >= 3000:
            raise Diverged("not this seed")
        return problem.copy()

    method(needs=())(fickle)
    config = replace(QUICK, methods=("fickle",), shadows=2, metrics=("retain_test_acc", "ulira_auc"))
    finished = compare(config, tmp_path)
    cells = Results.read(finished.comparison).cells
    assert finished.failed == {} and cells["fickle"][0]["diverged"] is None
    assert list(cells["fickle"][0]["measured"]["values"]) == ["retain_test_acc"]
    assert cells["fickle"][0]["measured"]["skipped"] == {"ulira_auc": "it diverged on a shadow model"}
    assert list(cells["original"][0]["measured"]["values"]) == ["retain_test_acc", "ulira_auc"]


def test_another_network_of_the_same_name_is_refused(tmp_path: Path) -> None:
    compare(QUICK, tmp_path)
    comparison = Comparison(tmp_path, QUICK)
    object.__setattr__(comparison, "scenario", replace(comparison.scenario, network=lambda: nn.Linear(4, 4)))
    with pytest.raises(InvalidData, match="holds another network"):
        comparison.networks.load(comparison.trials[0].original)


def test_networks_of_other_data_are_refused(tmp_path: Path) -> None:
    """Though they have the same shape."""
    compare(QUICK, tmp_path / "a", models=tmp_path / "networks")
    other = Networks(tmp_path / "networks", "tiny_scenario:points", tiny_scenario.make())
    with pytest.raises(InvalidData, match="was trained on tiny_scenario:make, not tiny_scenario:points"):
        other.load(trials(QUICK, 4)[0].original)


def test_chosen_methods_bring_what_they_are_compared_with() -> None:
    known = methods()
    controls = [name for name, m in known.items() if m.control]
    assert controls == ["bias_shift", "head_only", "logit_mask"]
    assert set(chosen_methods("all")) == {name for name, m in known.items() if "classes" in m.kinds}
    assert chosen_methods("unsc, finetune") == ("retrain", "unsc", "finetune", *controls)
    assert chosen_methods("unsc[budget=1e-3, stop_mass=0.1],unsc")[1:3] == ("unsc[budget=1e-3, stop_mass=0.1]", "unsc")
    with pytest.raises(InvalidRequest, match="no method 'unsk'; did you mean unsc"):
        chosen_methods("finetune,unsk")


def test_the_report_holds_everything(whole: Finished, tmp_path: Path) -> None:
    finished = replace(whole, comparison=Comparison(_copy(whole, tmp_path), CONFIG))
    results = write_report(finished, "unsc compare --seed 0")
    with (tmp_path / "shown.txt").open("w") as shown:
        show_results(results, Console(file=shown, width=200))
    text = (tmp_path / "report.md").read_text()
    assert "Made by `unsc compare --seed 0`" in text and "over 2 trials" in text
    assert all(f"| {name} |" in text for name in ("original", *CONFIG.methods))
    assert "logit_mask" in (tmp_path / "shown.txt").read_text()
    assert (tmp_path / "results.json").exists() and (tmp_path / "results.csv").exists()


def test_a_folder_of_an_earlier_version_resumes(whole: Finished, tmp_path: Path) -> None:
    """Up to 0.2.0 tries were called trials in the configuration, and attempts in the files of tuning."""
    folder = _copy(whole, tmp_path)
    path = folder / "config.json"
    content = json.loads(path.read_text())
    content["config"]["tune_trials"] = content["config"].pop("tune_tries")
    path.write_text(json.dumps(content))
    tuned = folder / "tuned" / "finetune.json"
    former = json.loads(tuned.read_text())
    tuned.write_text(json.dumps({"attempts": former.pop("tries"), **former}))
    (folder / "results/trial-1/finetune.json").unlink()
    before = _files(folder)
    again = compare(CONFIG, folder)
    after = _files(folder)
    assert {n for n in after if after[n] != before.get(n)} == {"config.json", "results/trial-1/finetune.json"}
    assert _values(again) == _values(whole)
    with pytest.warns(DeprecationWarning, match=r"Finished\.run is now Finished\.comparison"):
        assert again.run is again.comparison
