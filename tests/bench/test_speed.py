"""What a request costs: the rows with tiny settings, the oracle they use, the files and the page."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from unsc.bench.datasets import Split
from unsc.bench.speed import explicit
from unsc.bench.speed.apart import Apart, apart
from unsc.bench.speed.extrapolate import to_imagenet
from unsc.bench.speed.images import Synthetic
from unsc.bench.speed.page import grid, write_page
from unsc.bench.speed.place import Missing, Place
from unsc.bench.speed.row import ROWS, Goal, Line, Row, in_order
from unsc.bench.speed.rows.bases import Bases
from unsc.bench.speed.rows.classes import Preparation
from unsc.bench.speed.rows.fisher import AgainstFisher
from unsc.bench.speed.rows.growth import Growth, Shape, exponent
from unsc.bench.speed.rows.imagenet import LargeNetwork
from unsc.bench.speed.rows.memory import PeakMemory
from unsc.bench.speed.rows.null_space import ManyClasses
from unsc.bench.speed.rows.ranks import SharedOut
from unsc.bench.speed.rows.request import WholeRequest
from unsc.bench.speed.rows.step import OneStep
from unsc.bench.speed.run import measured, read_rows, run_speed
from unsc.bench.speed.stages import stages_of
from unsc.bench.training.protocol import Protocol
from unsc.cli.bench import app
from unsc.errors import InvalidData, InvalidRequest, UnscError
from unsc.loading.code import import_callable

NOWHERE = Place(Path("nowhere"))


def tiny_growth() -> Growth:
    base = Shape(classes=3, samples=120, width=2, depth=1, side=4, forgotten=40)
    return Growth("growth", 10, base, {"samples": (120, 240)}, batch_size=8, most_steps=3, repeats=2)


def test_a_request_is_held_against_an_epoch(digits: Split, digits_model: nn.Module) -> None:
    row = WholeRequest("x", 1, requests=((3,), (8,)), protocol=Protocol(1, 64), epoch_batches=2)
    line = row.line(digits_model, digits)
    assert len(line.values) == 2 and min(line.values) > 0
    for request, value in zip(line.noted["requests"], line.values, strict=True):
        assert request["seconds"] / request["epoch"] == pytest.approx(value)
        assert 0 < request["preparation"] + request["loop"] < request["seconds"]
        assert request["logit_mask"]["forget_test_acc"] == 0 < 90 < request["original"]["forget_test_acc"]
        assert request["unsc"]["retain_test_acc"] > 90


def test_steps_are_timed_within_a_run(digits: Split, digits_model: nn.Module) -> None:
    row = OneStep("x", 4, forget=3, batch_size=16, per_class=40, most_steps=5, repeats=1)
    found = list(row.lines(digits_model, digits.train))
    assert [line.what.split()[1] for line in found] == ["budgeted", "paper"]
    assert all(line.value > 0 and line.goal == Goal("at most", 1.25) for line in found)


def test_stages_end_where_they_are_told(digits: Split, digits_model: nn.Module) -> None:
    options = {"classes": [3], "stop_mass": 0.0}
    prepared = stages_of(digits_model, digits.train, most_steps=0, **options)
    assert prepared.steps == 0 and prepared.preparation > 0 == prepared.loop
    some = stages_of(digits_model, digits.train, most_steps=3, **options)
    assert some.steps == 3 and 0 < 2 * some.seconds_per_step < some.loop


def test_fisher(digits: Split, digits_model: nn.Module) -> None:
    line = AgainstFisher("x", 5, forget=3, forget_samples=60, retain_samples=200, repeats=1).line(
        digits_model, digits.train
    )
    spent = line.noted["cpu_seconds"]
    assert line.value == pytest.approx(spent["unsc"][0] / spent["fisher"][0])


def test_bases_are_those_of_an_explicit_decomposition(digits: Split, digits_model: nn.Module) -> None:
    """On every layer of a convolutional network, three classes: the benchmark's own check."""
    row = Bases("x", 6, forget=3, samples=40, explicit_classes=3, repeats=1)
    faster, difference = row.lines(digits_model, digits.train)
    assert faster.value > 0
    assert all(a == b for a, b in difference.noted["ranks"].values())
    assert difference.value < 1e-4 and difference.goal is not None and difference.goal.reached(difference.value)


def test_the_explicit_way() -> None:
    """Patches times weight are the layer's output; the distance of spaces is the sine of their angle."""
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 5, 3, stride=2, padding=1)
    model = nn.Sequential(conv, nn.Flatten(), nn.Linear(20, 2, bias=False))
    x = torch.randn(6, 3, 4, 4)
    rows = explicit.patch_matrices(model, explicit.layers_of(model), [x[:4], x[4:]])
    bias = conv.get_parameter("bias")
    weight = torch.cat([conv.weight.flatten(1), bias[:, None]], dim=1)
    torch.testing.assert_close((rows["0"] @ weight.T).view(6, 4, 5).mT.reshape(6, 5, 2, 2), conv(x))
    torch.testing.assert_close(rows["2"], conv(x).flatten(1))
    first, second = (np.array([[math.cos(a)], [math.sin(a)]]) for a in (0.0, 0.3))
    assert explicit.distance(first, second) == pytest.approx(math.sin(0.3))
    assert explicit.distance(first, np.eye(2)) == 1.0
    assert explicit.basis(np.diag([3.0, 1.0, 0.0]), 0.9).shape == (3, 1)
    assert explicit.basis(np.diag([3.0, 1.0, 0.0]), 0.91).shape == (3, 2)


def test_many_classes(digits: Split) -> None:
    images = digits.train.tensors[0].repeat(1, 3, 1, 1), digits.train.tensors[1]
    row = ManyClasses("x", 7, classes=6, timed_classes=2, samples=8, width=0.05)
    faster, peak = row.lines(type(digits.train)(*images))
    noted = faster.noted
    assert noted["seconds"] == pytest.approx(6 * noted["seconds_per_class"] + noted["last_merge"])
    assert faster.value == pytest.approx(noted["explicit_seconds"] / noted["seconds"])
    assert peak.unit == "GiB" and peak.value > 0


@pytest.mark.parametrize(
    ("row", "units"),
    [
        (Preparation("x", 3, classes=(3, 5), samples=60, forgotten=8, width=0.2, side=8, repeats=1), ["times"] * 2),
        (PeakMemory("x", 8, sides=(8,), classes=3, samples=60, batch_size=8, width=0.2), ["times"]),
        (
            LargeNetwork(
                "x",
                9,
                classes=3,
                side=32,
                samples=(4, 8),
                batch_size=4,
                config={"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8},
            ),
            ["s", "times", "GiB"],
        ),
    ],
    ids=["classes", "memory", "vit"],
)
def test_rows_that_need_no_files(row: Row, units: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Their work is done in this process, since it takes seconds to start another one."""

    def here(work: str, **arguments: object) -> Apart:
        arguments = json.loads(json.dumps(arguments))
        return Apart(json.loads(json.dumps(import_callable(work)(**arguments))), 1.0, 10.0)

    monkeypatch.setattr(f"{type(row).__module__}.apart", here)
    found = list(row.measure(NOWHERE))
    assert [line.unit for line in found] == units
    assert all(value > 0 for line in found for value in line.values)
    json.dumps([asdict(line) for line in found])


def test_a_request_over_processes(digits: Split, digits_model: nn.Module) -> None:
    line = SharedOut("x", 8, requests=((3,),)).line(digits_model, digits.train)
    ((alone, shared),) = line.noted["alone_and_shared"]
    assert line.values == (shared["seconds"] / alone["seconds"],)
    assert alone["status"] == shared["status"] == "forgotten"


def test_growth_and_its_exponents() -> None:
    assert exponent([1, 10, 100], [3.0, 30.0, 300.0]) == pytest.approx(1)
    assert exponent([2, 4, 8], [5.0, 5.0, 5.0]) == pytest.approx(0)
    lines = list(tiny_growth().measure(NOWHERE))
    assert [line.what for line in lines] == ["preparation by samples", "step by samples"]
    assert [len(line.values) for line in lines] == [2, 2]
    assert lines[0].goal == Goal("at most", 0.1)


def test_images_are_the_same_whenever_they_are_read() -> None:
    data = Synthetic(7, 3, 4)
    assert data.targets.tolist() == [0, 1, 2, 0, 1, 2, 0] and data[4][1] == 1
    torch.testing.assert_close(data[4][0], data[4][0])
    assert not torch.equal(data[4][0], data[1][0])


def test_work_apart_has_its_own_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[1])  # where the module is
    found = apart("worker_tasks:fill", mib=200)
    assert found.given == {"filled": 200} and 199 < found.peak_mib < 260
    with pytest.raises(UnscError, match="no 'nothing'"):
        apart("unsc.bench.speed.images:nothing")


def test_goals() -> None:
    line = Line("a", "b", (3.0, 1.0, 2.0), goal=Goal("at most", 2))
    assert line.value == 2 and Goal("at most", 2).reached(2) and not Goal("at least", 2.1).reached(2)
    assert str(line.goal) == "at most 2"


def test_rows_are_measured_once_and_can_be_read(tmp_path: Path) -> None:
    with ROWS.temporarily(tiny_growth()):
        assert [became.split()[-1] for _, became in run_speed(["growth"], tmp_path, NOWHERE)] == ["s"]
        before = (tmp_path / "growth.json").read_text()
        assert list(run_speed(["growth"], tmp_path, NOWHERE)) == [("growth", "measured before")]
        assert (tmp_path / "growth.json").read_text() == before
        assert dict(run_speed(["growth"], tmp_path, NOWHERE, fresh=True)) != {"growth": "measured before"}
    ((about, lines),) = read_rows(tmp_path)
    assert about["settings"]["repeats"] == 2 and about["hardware"]["cores"] and about["versions"]["torch"]
    assert [line.unit for line in lines] == ["exponent", "exponent"] and lines[0].goal == Goal("at most", 0.1)


def test_rows_without_their_files_say_what_they_need(tmp_path: Path) -> None:
    wanting = [
        "request-resnet20",
        "request-100",
        "request-densenet",
        "step-alexnet",
        "fisher",
        "bases",
        "null-space",
        "ranks",
    ]
    for name, became in run_speed(wanting, tmp_path, Place(tmp_path)):
        assert became.startswith("not measured: needs") and "give --" in became, name
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Missing, match="fashion-mnist"):
        Place(tmp_path).network("alexnet")
    with pytest.raises(InvalidData, match="there is no file"):
        Place(tmp_path, resnet20=tmp_path / "missing.th").network("resnet20")


def test_every_row_stands_in_the_table() -> None:
    assert {row.number for row in in_order()} == set(range(1, 11))
    assert [row.number for row in in_order()] == sorted(row.number for row in in_order())


def test_the_page(tmp_path: Path) -> None:
    """Rows become a table between the marks, and growth a picture."""
    folder, page = tmp_path / "results" / "speed", tmp_path / "docs" / "speed.md"
    assert write_page(tmp_path / "results") == []
    page.parent.mkdir()
    page.write_text("before\n<!-- table -->\nold\n<!-- end table -->\n<!-- growth -->\n<!-- end growth -->\nafter\n")
    assert write_page(tmp_path / "results") == []
    folder.mkdir(parents=True)
    content = measured(tiny_growth(), NOWHERE)
    content["lines"][0] |= {"values": [0.5, 0.1, 0.3], "goal": {"bound": "at most", "limit": 0.2}}
    (folder / "growth.json").write_text(json.dumps(content))
    assert [path.name for path in write_page(tmp_path / "results")] == ["speed.md", "growth.png"]
    text = page.read_text()
    assert text.startswith("before\n<!-- table -->\n| row | what |") and text.endswith("<!-- end growth -->\nafter\n")
    assert "(growth.png)" in text
    assert "| growth | preparation by samples |  | 0.3 exponent | 0.1 to 0.5, 3 | at most 0.2 | **no** |" in text
    assert "old" not in text and f"torch {torch.__version__}" in text
    assert "| samples | 120 | 240 | 0.30 |" in text
    (folder / "growth.json").write_text("{}")
    with pytest.raises(InvalidData, match="does not hold a row"):
        grid(folder)


def test_the_way_to_imagenet() -> None:
    """1,281 images a class, 1,153 of them learned from in batches of 64, 38 steps; a step on 8 images takes 2 s."""
    noted = {"seconds_without_samples": 10.0, "seconds_per_sample": 0.5, "samples_to_scale_to": 100.0}
    noted |= {"preparation": 60.0, "step": 2.0, "sgd": 1.0}
    about = {"settings": {"title": "A network", "batch_size": 8}}
    said = to_imagenet(about, [Line("a", "", (60.0,), noted=noted), Line("b", "", (3.0,), unit="GiB")])
    assert "1,153 are learned from in batches of 64: at most 38 steps in 2 passes" in said
    assert "the loop 608 s. Together 668 s." in said and "160,146 s" in said and "0.0042 of an epoch" in said


def test_the_command(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["speed", "growht", "--out", str(tmp_path)])
    assert isinstance(done.exception, InvalidRequest) and "did you mean growth" in str(done.exception)
    with ROWS.temporarily(replace(tiny_growth(), repeats=1)):
        done = CliRunner().invoke(app, ["speed", "growth", "fisher", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "fisher: not measured" in done.output and "growth" in done.output
