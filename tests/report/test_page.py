"""What the report says of a run, held against the files that the run left; what they do not hold is not shown."""

from __future__ import annotations

import json
import re
import shutil
from html import unescape
from pathlib import Path

import pytest

from unsc.errors import InvalidData, InvalidRequest
from unsc.evaluation.side_by_side import FILE
from unsc.report.figures import accuracy, course, destinations, layers
from unsc.report.page import render, write_report
from unsc.report.parts.gate import lights
from unsc.report.parts.verdict import sentence, state
from unsc.report.read import read_runs
from unsc.report.request import RequestRun

RESULTS = Path(__file__).parents[2] / "results"
MIB = 1 << 20


def read(folder: Path) -> RequestRun:
    (run,) = read_runs([folder])
    assert isinstance(run, RequestRun)
    return run


def words(page: str) -> str:
    """What a reader sees, without markup and scripts."""
    plain = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", plain)))


def test_the_verdict_is_that_of_the_run(request_run: Path, paper_run: Path) -> None:
    run = read(request_run)
    m = json.loads((request_run / "metrics.json").read_text())
    assert state(run) == ("forgotten", "good")
    assert sentence(run).startswith("Class 3 is forgotten") and f"{m['retained_kl']:.2g} nats" in sentence(run)
    assert state(read(paper_run)) == ("not forgotten", "bad")
    assert "not forgotten" in sentence(read(paper_run))


def test_lights_are_those_of_the_figures(request_run: Path, paper_run: Path) -> None:
    """Against the default policy: what is not measured is neither good nor bad."""
    found = {light.check: light for light in lights(read(request_run))}
    m = json.loads((request_run / "metrics.json").read_text())
    assert found["forget_acc"].value == m["forget_acc"] and found["forget_acc"].state == "good"
    assert found["retained_kl"].value == m["retained_kl"]
    assert found["revived"].state == "open" and found["revived"].value is None
    assert {light.check: light.state for light in lights(read(paper_run))}["forget_acc"] == "bad"


def test_an_attack_counts_both_ways(request_run: Path, tmp_path: Path) -> None:
    """An AUC of 0.1 tells members as well as one of 0.9."""
    content = json.loads((request_run / FILE).read_text())
    content["networks"][-1]["membership"]["auc"] = 0.1
    (tmp_path / FILE).write_text(json.dumps(content))
    assert {light.check: light.state for light in lights(read(tmp_path))}["attack"] == "bad"


def test_a_store_shows_its_gate_and_its_receipt(store_runs: tuple[Path, Path]) -> None:
    released, refused = map(read, store_runs)
    assert state(released) == ("released", "good") and state(refused) == ("refused", "bad")
    assert [light.check for light in lights(refused) if light.state == "bad"] == ["retained_kl"]
    receipt = json.loads((store_runs[0] / "receipt.json").read_text())
    said = words(render([released]))
    for value in (receipt["says"], receipt["child"]["sha256"], receipt["signature"]["key"], *receipt["does_not_prove"]):
        assert value in said
    assert "does not check it" in said
    said = words(render([refused]))
    assert "refused by the gate, because of retained_kl" in said and "this candidate was not released" in said


def test_figures_hold_the_numbers_of_the_files(request_run: Path) -> None:
    run = read(request_run)
    content = json.loads((request_run / FILE).read_text())
    by_class = accuracy.figure(run)
    assert by_class is not None
    for row, own in zip(by_class.views[""].rows, content["networks"][0]["classes"], strict=True):
        assert row[3] == 100 * own["hits"] / own["samples"]
    went = destinations.figure(run)
    assert went is not None
    for column in range(1, 1 + len(content["networks"])):
        assert sum(float(row[column] or 0) for row in went.views[""].rows) == pytest.approx(100)
    by_layer, steps = layers.figure(run), course.figure(run)
    assert by_layer is not None and [row[0] for row in by_layer.views[""].rows] == list(content["run"]["drift"])
    numbers = {
        0,
        *(one["step"] for one in content["run"]["spent"]),
        *(one["steps"] for one in content["run"]["history"]),
    }
    assert steps is not None and [row[0] for row in steps.views[""].rows] == sorted(numbers)
    assert max(numbers) == content["run"]["steps"]


def test_what_is_not_there_is_said_and_not_shown(paper_run: Path) -> None:
    said = words(render(read_runs([paper_run])))
    for sentence_ in (
        "Accuracy by class: it was not kept",
        "no report-data.json",
        "predicts neither",
        "There is no receipt",
    ):
        assert sentence_ in said
    assert "Networks side by side: the folder has no" in said and "Membership: the folder has no attack" in said


def test_training_data_alone_has_no_membership(request_run: Path, tmp_path: Path) -> None:
    content = json.loads((request_run / FILE).read_text())
    content["missing"] = {"membership": "There were no unseen samples."}
    content["networks"] = [one | {"membership": None} for one in content["networks"]]
    (tmp_path / FILE).write_text(json.dumps(content))
    said = words(render([read(tmp_path)]))
    assert "Membership: There were no unseen samples." in said
    assert {light.check: light.state for light in lights(read(tmp_path))}["attack"] == "open"


def test_nothing_in_a_file_becomes_markup(request_run: Path, tmp_path: Path) -> None:
    """Names of classes and networks are text, in the page and in its data."""
    content = json.loads((request_run / FILE).read_text())
    evil = "</script><script>alert(1)</script>"
    content["class_names"][3] = evil
    content["networks"][1]["title"] = evil
    content["run"]["promise"] = evil
    (tmp_path / FILE).write_text(json.dumps(content))
    assert "<script>alert" not in render([read(tmp_path)])


def test_a_number_that_is_none_leaves_the_data_readable(request_run: Path, tmp_path: Path) -> None:
    """A run that broke has NaN in its files, and JSON of browsers has not."""
    content = json.loads((request_run / FILE).read_text())
    content["run"]["history"][0]["retained_kl"] = float("nan")
    (tmp_path / FILE).write_text(json.dumps(content))
    data = re.search(r'id="figures">(.*?)</script>', render([read(tmp_path)]), re.DOTALL)
    assert data is not None

    def refuse(name: str) -> None:
        raise AssertionError(name)

    json.loads(data.group(1), parse_constant=refuse)


def test_methods_are_those_of_the_comparison() -> None:
    said = words(render(read_runs([RESULTS / "compare-digits"])))
    config = json.loads((RESULTS / "compare-digits" / "config.json").read_text())["config"]
    assert all(method in said for method in config["methods"])
    assert said.count(" control ") >= 3


@pytest.mark.parametrize("name", ["", "steps"])
def test_benchmarks_are_tables(name: str) -> None:
    said = words(render(read_runs([RESULTS / name])))
    assert ("fashion-mnist: table1" if not name else "resnet20") in said


def test_the_file_is_one_whole_and_small(request_run: Path, tmp_path: Path) -> None:
    """Nothing but the file itself: no address that a browser would ask, and within 5 MB."""
    path = write_report([request_run, RESULTS], tmp_path / "report.html")
    page = path.read_text()
    assert path.stat().st_size < 5 * MIB
    markup = re.sub(r"(<(script|style)\b[^>]*>).*?</\2>", r"\1", page, flags=re.DOTALL)
    assert not re.search(r"<(link|img|iframe|script)\b[^>]*\b(src|href)=|url\(", markup)
    assert "default-src 'none'" in page
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert page == render(read_runs([request_run, RESULTS])), "the same folders give the same report"


def test_mistakes_are_said(tmp_path: Path, request_run: Path) -> None:
    with pytest.raises(InvalidRequest, match="there is no folder"):
        read_runs([tmp_path / "nowhere"])
    with pytest.raises(InvalidRequest, match="holds no run"):
        read_runs([tmp_path])
    with pytest.raises(InvalidRequest, match="no folder is named"):
        read_runs([])
    other = shutil.copytree(request_run, tmp_path / "other")
    content = json.loads((other / FILE).read_text())
    (other / FILE).write_text(json.dumps(content | {"version": 99}))
    with pytest.raises(InvalidData, match="version 99"):
        read_runs([other])
    (other / FILE).write_text(json.dumps({"kind": content["kind"], "version": 1}))
    with pytest.raises(InvalidData, match="damaged"):
        read_runs([other])
    (other / FILE).write_text("{")
    with pytest.raises(InvalidData, match="cannot read"):
        read_runs([other])
