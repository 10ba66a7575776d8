"""The demo end to end, and the command line around it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from unsc import cli
from unsc.bench import demo
from unsc.bench.networks import digits_cnn
from unsc.bench.speed.clock import threads
from unsc.errors import InvalidRequest
from unsc.methods.logit_mask import LogitMask
from unsc.storage.files import load_tensors

ROWS = ("original", "retrained", "logit_mask", "unsc_paper", "unsc")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One demo, run through the command line."""
    out = tmp_path_factory.mktemp("demo") / "run"
    _main("demo", "--classes", "8", "--out", str(out))
    return out


def _main(*words: str) -> None:
    before, sys.argv = sys.argv, ["unsc", *words]
    try:
        cli.main()
    except SystemExit as stop:
        if stop.code:
            raise
    finally:
        sys.argv = before


def test_the_demo_writes_all_that_it_promises(run: Path) -> None:
    """Five rows with four numbers each, a config, two checkpoints that load, and a picture."""
    metrics = json.loads((run / "metrics.json").read_text())
    assert tuple(metrics) == ROWS
    for row in metrics.values():
        assert all(isinstance(row[key], float) for key in ("retain_test_acc", "forget_test_acc", "drift", "seconds"))
        assert 0 <= row["forget_test_acc"] <= 100
    assert json.loads((run / "config.json").read_text())["classes"] == [8]
    for name in ("original", "unsc"):
        state, _ = load_tensors(run / f"{name}.safetensors")
        digits_cnn().load_state_dict(state)
    assert (run / "class_accuracy.png").read_bytes().startswith(b"\x89PNG")


def test_the_demo_ends_with_the_line_that_opens_its_report(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The one that it wrote is the one that `unsc report` writes from the folder alone."""
    before = (run / "report.html").read_text()
    _main("report", str(run))
    assert capsys.readouterr().out.splitlines()[-1] == f"Open the report: {(run / 'report.html').resolve().as_uri()}"
    assert (run / "report.html").read_text() == before and "Class 8 is forgotten" in before


def test_the_demo_forgets_and_keeps(run: Path) -> None:
    """All but the original have forgotten; ours keeps the retained classes within a point of the original."""
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["original"]["forget_test_acc"] > 80
    assert all(metrics[name]["forget_test_acc"] <= 5 for name in ROWS[1:])
    assert metrics["unsc"]["retain_test_acc"] >= metrics["original"]["retain_test_acc"] - 1
    assert metrics["original"]["drift"] == metrics["logit_mask"]["drift"] == 0 < metrics["unsc"]["drift"]
    assert metrics["unsc"]["drift"] < metrics["retrained"]["drift"]


def test_the_two_checkpoints_differ_in_weights_but_not_in_normalisation(run: Path) -> None:
    before, after = (load_tensors(run / f"{name}.safetensors")[0] for name in ("original", "unsc"))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {f"{i}.{part}" for i in (0, 3, 7, 12, 14) for part in ("weight", "bias")}


def test_the_demo_takes_one_thread_and_gives_the_others_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def look(*_: object, **__: object) -> None:
        seen.append(torch.get_num_threads())
        raise InvalidRequest("by design")

    monkeypatch.setattr(demo, "demo", look)
    with threads(2):
        with pytest.raises(SystemExit):
            _main("demo", "--out", str(tmp_path / "run"))
        assert (seen, torch.get_num_threads()) == ([1], 2)


def test_a_folder_of_somebody_else_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(InvalidRequest, match="was not written by the demo"):
        demo.demo([3], out=tmp_path)
    with pytest.raises(SystemExit) as stop:
        _main("demo", "--out", str(tmp_path))
    assert stop.value.code == 2
    assert "--out" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").read_text() == "precious"


@pytest.mark.parametrize(("given", "said"), [("12", "12"), ("x", "'x'"), ("0,1,2,3,4,5,6,7,8,9", "all 10")])
def test_a_mistake_on_the_command_line_is_a_message(
    given: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        _main("demo", "--classes", given, "--out", str(tmp_path / "run"))
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert said in message
    assert "Traceback" not in message
    assert not (tmp_path / "run").exists()


def test_the_mask_hides_only_the_forgotten_classes() -> None:
    logits = torch.randn(5, 4)
    masked = LogitMask(torch.nn.Identity(), [1, 3])(logits)
    assert torch.equal(masked[:, [0, 2]], logits[:, [0, 2]])
    assert not torch.isin(masked.argmax(dim=1), torch.tensor([1, 3])).any()
