"""The paper's experiments, its numbers, and the files in between."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from unsc.bench.data.shared.image_data import DATA
from unsc.bench.experiments import ABLATION, METRICS, experiments
from unsc.bench.paper import reported
from unsc.bench.results import keep, read_results
from unsc.bench.tables import write_tables
from unsc.compare.comparison import Comparison
from unsc.compare.plan import trials
from unsc.errors import InvalidData, InvalidRequest
from unsc.evaluation.shared.metrics import metrics
from unsc.methods import find, methods
from unsc.storage.files import write_json

SIZES = {"fashion-mnist": 10, "svhn": 10, "cifar-10": 10, "cifar-100": 100}


@pytest.mark.parametrize("data", SIZES)
def test_near_the_papers_level_neither_our_step_nor_the_papers_has_anything_to_choose(data: str) -> None:
    (table,) = experiments("table1", data, preset="long")
    for name in ("unsc", "unsc_paper"):
        given = {key.partition(".")[2]: x for key, x in table.config.settings if key.startswith(f"{name}.")}
        assert given.keys() >= find(name).search.keys()
        assert name == "unsc_paper" or all(given[key] == find(name).defaults[key] for key in find(name).search)


@pytest.mark.parametrize("data", SIZES)
def test_an_experiment_forgets_what_the_paper_forgets(data: str) -> None:
    """One class, ten of CIFAR-100; one to five classes at once, 10 to 50 of CIFAR-100; each set holds the former."""
    step = 10 if data == "cifar-100" else 1
    (table,), (ablation,) = experiments("table1", data, trials=3), experiments("ablation", data)
    assert len(table.config.classes or ()) == step and ablation.config.classes == table.config.classes
    assert set(table.config.methods) == {name for name, method in methods().items() if "classes" in method.kinds}
    several = [set(e.config.classes or ()) for e in experiments("multiclass", data)]
    assert [len(s) for s in several] == [step * i for i in range(1, 6)]
    assert all(a < b for a, b in pairwise(several))
    assert all(0 <= k < SIZES[data] for k in DATA.find(data).forget)


def test_networks_are_shared_by_experiments_and_differ_between_trials() -> None:
    (table,), several = experiments("table1", "svhn", trials=3), experiments("multiclass", "svhn")
    originals = [t.original for t in trials(table.config, 10)]
    assert len({o.key for o in originals}) == 3
    assert all(trials(e.config, 10)[0].original == originals[0] for e in several)
    assert all(t.twin is None and not t.references for t in trials(table.config, 10))


@pytest.mark.parametrize("data", SIZES)
def test_each_class_is_forgotten_once_and_nothing_is_retrained(data: str) -> None:
    found = experiments("classes", data)
    every = [k for e in found for k in e.config.classes or ()]
    assert sorted(every) == sorted(DATA.find(data).forget if data == "cifar-100" else range(10)) and len(
        set(every)
    ) == len(every)
    assert len(set(every)) == len(every) and len({e.name for e in found}) == len(found)
    needs = {need for e in found for name in e.config.metrics or () for need in metrics()[name].needs}
    assert not needs & {"retrained", "retrained_cost"} and all("retrain" not in e.config.methods for e in found)


def test_several_classes_are_forgotten_without_retraining() -> None:
    """The same classes as with it."""
    found, retrained = experiments("several", "cifar-100"), experiments("multiclass", "cifar-100")
    assert [e.config.classes for e in found] == [e.config.classes for e in retrained]
    needs = {need for e in found for name in e.config.metrics or () for need in metrics()[name].needs}
    assert not needs & {"retrained", "retrained_cost"} and all("retrain" not in e.config.methods for e in found)
    assert [e.name for e in found] == [f"several-{n}" for n in (10, 20, 30, 40, 50)]


def test_methods_can_be_left_for_later() -> None:
    """What is fixed of a comparison does not depend on them, so that the others can follow in the same folder."""
    (some,), (whole,) = (experiments("table1", "svhn", only=only) for only in (("unsc", "ssd"), ()))
    assert some.config.methods == ("unsc", "ssd") and some.config.fixed() == whole.config.fixed()
    with pytest.raises(InvalidRequest, match="no method of several 'ssd'"):
        experiments("several", "svhn", only=("ssd",))


def test_long_gives_every_forgotten_sample() -> None:
    (short,), (long,) = (experiments("table1", "cifar-10", preset=preset) for preset in ("cpu", "long"))
    assert (short.config.forget_samples, long.config.forget_samples) == (1000, None)
    assert long.config.retain_samples == 5000


@pytest.mark.parametrize(
    ("data", "lr", "passes"), [("svhn", 0.03, 15), ("cifar-10", 0.04, 25), ("cifar-100", 0.04, 25)]
)
def test_long_gives_the_papers_step_what_its_text_says(data: str, lr: float, passes: int) -> None:
    """By the paper's table of details. Nothing is left to choose, so that row V of the ablation is a row of table 1."""
    (table,), (ablation,) = (experiments(name, data, preset="long") for name in ("table1", "ablation"))
    given = {name.partition(".")[2]: v for name, v in table.config.settings if name.startswith("unsc_paper.")}
    assert given == {"lr": lr, "max_passes": passes, "energy": 0.97, "merge_energy": 0.99}
    assert set(find("unsc_paper").search) <= set(given)
    assert ablation.config.methods == ("retrain", "relabel", "unsc_paper[targets=random]", "unsc_paper", "unsc")
    assert ablation.config.fixed() == table.config.fixed()


@pytest.mark.parametrize("preset", ["paper", "recipe"])
def test_the_papers_own_recipe_gives_everything(preset: str) -> None:
    """All samples, and the settings of the paper's text for its step."""
    (table,) = experiments("table1", "fashion-mnist", preset=preset)
    assert table.config.retain_samples is None and table.config.forget_samples is None
    assert dict(table.config.settings)["unsc_paper.lr"] == 5e-4


def test_several_classes_get_fewer_passes_of_the_papers_step() -> None:
    """The smallest number of them gets the paper's."""

    def passes(preset: str) -> list[int]:
        return [
            dict(e.config.settings)["unsc_paper.max_passes"] for e in experiments("several", "cifar-100", preset=preset)
        ]

    assert passes("long") == [25, 4, 3, 2, 2] and passes("cpu") == [8] * 5  # `cpu` gives 1,000 samples in all cases


def test_the_ablation_is_part_of_the_comparison_of_table_1() -> None:
    (table,), (ablation,) = experiments("table1", "svhn", trials=3), experiments("ablation", "svhn")
    assert ablation.comparison == table.comparison and ablation.name != table.name
    assert ablation.config.fixed() == table.config.fixed()
    assert len({e.comparison for e in experiments("multiclass", "svhn")}) == 5


def test_every_name_is_known() -> None:
    assert set(METRICS) <= set(metrics())
    assert all(find(name) for number, row in ABLATION.items() if number != "I" for name in row.names)
    for wrong in (("table2", "svhn", "cpu"), ("table1", "mnist", "cpu"), ("table1", "svhn", "gpu")):
        with pytest.raises(InvalidRequest, match="there is no"):
            experiments(wrong[0], wrong[1], preset=wrong[2])
    with pytest.raises(InvalidRequest, match="at least 1"):
        experiments("table1", "svhn", trials=0)


def test_the_papers_numbers() -> None:
    """Some of each table, typed in anew."""
    found = reported("table1", "svhn", "salun")
    assert found is not None and found.retain == (78.81, 4.85) and found.forget == (3.56, 0.56)
    found = reported("ablation", "cifar-100", "IV")
    assert found is not None and found.retain == (73.41, 0.47) and found.forget == (0.3, 0.22)
    found = reported("multiclass", "cifar-10", "5", "unsc_paper")
    assert found is not None and found.retain == (96.15, 0.13) and found.forget == (0.68, 0.52)
    assert reported("table1", "svhn", "ssd") is None and reported("multiclass", "svhn", "7", "retrain") is None
    for data in SIZES:
        assert reported("table1", data, "original") == reported("ablation", data, "I")


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    """A comparison of SVHN's table whose results are there, made up."""
    (experiment,) = experiments("table1", "svhn", trials=2)
    config = replace(experiment.config, methods=("retrain", "unsc", "ssd"))
    comparison = Comparison(tmp_path / "run", config)
    comparison.__dict__["trials"] = trials(config, 10)  # without reading the data set
    numbers = {"original": (90, 80), "retrain": (91, 0), "unsc": (90.5, 0.25), "ssd": (60, 1)}
    for trial in comparison.trials:
        for method, (retain, forget) in numbers.items():
            values = {"retain_test_acc": retain + trial.number, "forget_test_acc": forget}
            content = {
                "trial": trial.number,
                "method": method,
                "classes": trial.classes,
                "seed": 0,
                "settings": {},
                "cost": {"seconds": 9.0, "peak_mib": 1.0, "cpu_seconds": 2.0 + trial.number},
                "diverged": "the loss became nan" if method == "ssd" else None,
                "measured": {"values": {k: {"value": v, "n": 5} for k, v in values.items()}, "skipped": {}},
                "versions": {"unsc": "0.3.0"},
            }
            write_json(comparison.result_path(trial, method), content)
    return comparison


def test_results_are_kept_with_how_they_came_about(comparison: Comparison, tmp_path: Path) -> None:
    (experiment,) = experiments("table1", "svhn", trials=2)
    experiment = replace(experiment, config=comparison.config)
    written = keep(experiment, comparison, tmp_path / "results")
    assert len(written) == 2 * 4
    content = json.loads(written[0].read_text())
    assert content["network"]["name"] == "vgg11" and content["preset"] == "cpu"
    assert content["hardware"]["cores"] and content["config"]["classes"] == [3] and content["protocol"]["epochs"]
    found = list(read_results(tmp_path / "results"))
    assert {(r.method, r.trial) for r in found} == {
        (m, t) for m in ("original", "retrain", "unsc", "ssd") for t in (0, 1)
    }


def test_tables_are_made_from_the_files_alone(comparison: Comparison, tmp_path: Path) -> None:
    (experiment,) = experiments("table1", "svhn", trials=2)
    keep(replace(experiment, config=comparison.config), comparison, tmp_path / "results")
    text = write_tables(tmp_path / "results").read_text()
    split = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line]
    rows = {first: rest for first, *rest in split}
    assert rows["original"][:3] == ["90.5 ± 0.71", "", "80.0 ± 0.00"]  # 90 and 91
    assert rows["original"][-3:] == ["95.52 ± 0.12", "", "91.30 ± 0.30"]  # the paper's
    assert rows["unsc"][1] == "+0.50 ± 0.00" and rows["retrain"][-2] == "+0.04"  # 95.56 - 95.52
    assert rows["unsc"][6] == "2.50 ± 0.71"  # 2 and 3 seconds
    assert rows["unsc"][-3:] == ["", "", ""] and rows["ssd †"][0] == "60.5 ± 0.71"
    assert "ssd: the loss became nan" in text and "forgotten: 3 (n = 2 trials" in text
    assert "vgg11 at width 0.25, 8 epochs" in text and "vgg11 at width 1, at most 200 epochs" in text
    assert "at most 2000 retained and 1000 forgotten training samples" in text
    (tmp_path / "results/svhn/table1/trial-0/unsc.json").write_text("{")
    with pytest.raises(InvalidData, match=r"unsc\.json is not a result"):
        write_tables(tmp_path / "results")


def test_the_table_by_class_has_a_row_for_each_and_their_mean(comparison: Comparison, tmp_path: Path) -> None:
    for name, retain in (("4", 90.0), ("7", 92.0)):
        experiment = next(e for e in experiments("classes", "svhn") if e.name == f"class-{name}")
        content = json.loads(comparison.result_path(comparison.trials[0], "unsc").read_text())
        content |= {"classes": experiment.config.classes}
        content["measured"]["values"] = {"retain_test_acc": {"value": retain, "n": 5}}
        made = Comparison(tmp_path / name, replace(experiment.config, methods=("unsc",)))
        made.__dict__["trials"] = trials(made.config, 10)
        write_json(made.result_path(made.trials[0], "unsc"), content)
        keep(experiment, made, tmp_path / "results", {"md5": {}, "note": "cropped anew."})
    text = write_tables(tmp_path / "results").read_text()
    split = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line]
    rows = {first: rest for first, *rest in split}
    where = rows["forgotten"].index("ours retain %")
    assert [rows[k][where] for k in ("4", "7", "mean ± sd")] == ["90.0", "92.0", "91.0 ± 1.41"]
    assert rows["4"][0] == "–" and "cropped anew. Preset" in text


def test_presets_have_their_own_results(comparison: Comparison, tmp_path: Path) -> None:
    (experiment,) = experiments("table1", "svhn", trials=2)
    for data in ("svhn", "svhn@paper"):
        keep(replace(experiment, config=replace(comparison.config, data=data)), comparison, tmp_path / "results")
    text = write_tables(tmp_path / "results").read_text()
    assert {r.data for r in read_results(tmp_path / "results")} == {"svhn", "svhn@paper"}
    short, long = text.split("## svhn\n")[1].split("## svhn@paper\n")
    assert "Preset `cpu`: vgg11 at width 0.25" in short and "Preset `paper`: vgg11 at width 1" in long
    assert "95.52 ± 0.12" in short and "95.52 ± 0.12" in long  # the paper's numbers stand beside both


RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.skipif(not RESULTS.exists(), reason="results are not part of this copy")
def test_the_committed_results_give_the_committed_page(tmp_path: Path) -> None:
    """Byte for byte: files of earlier versions stay readable, and folders of other results change nothing."""
    shutil.copytree(RESULTS, tmp_path / "results")
    (tmp_path / "results" / "README.md").unlink()
    assert write_tables(tmp_path / "results").read_bytes() == (RESULTS / "README.md").read_bytes()
