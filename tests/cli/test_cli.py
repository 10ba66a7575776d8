"""The command line: what it prints, what it writes, and that a mistake is a message and never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_scenario
import torch
from torch import nn
from typer.main import get_command

import unsc
from unsc.cli import commands, tables
from unsc.methods import methods
from unsc.methods.shared import registry
from unsc.storage.files import save_tensors

TINY = ("--data", "tiny_scenario:make")
DIGITS = ("--model", "unsc.bench.networks:digits_cnn", "--forgotten", "3")


@pytest.fixture
def command(tmp_path: Path, run_in):
    """Runs `unsc` with these words in an empty folder; gives its exit code, output and errors."""
    return run_in(tmp_path)


@pytest.fixture
def weights(tmp_path: Path, digits_model: nn.Module, digits_retrained: nn.Module) -> Path:
    """A folder with the digits' original, in two formats, and a retrained model."""
    save_tensors(tmp_path / "original.safetensors", digits_model.state_dict(), {})
    torch.save(digits_model.state_dict(), tmp_path / "original.pt")
    torch.save({"state_dict": digits_retrained.state_dict()}, tmp_path / "retrained.pt")
    return tmp_path


def test_the_version(command) -> None:
    assert command("--version") == (0, f"{unsc.__version__}\n", "")


def test_methods_and_metrics_are_listed(command) -> None:
    code, out, _ = command("methods")
    assert code == 0 and all(name in out for name in methods())
    code, out, _ = command("metrics")
    assert code == 0 and "forget_test_acc" in out and "as retrained" in out
    code, out, _ = command("methods", "unsc")
    assert code == 0 and "Mechanism:" in out and "budget = " in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("methods", "unsk"), "there is no method 'unsk'; did you mean unsc?"),
        (("tune", "unsk"), "did you mean unsc?"),
        (("tune", "finetune", "--data", "digit"), "did you mean digits?"),
        (("tune", "finetune", *TINY, "--trials", "0"), "give at least one try"),
        (("tune", "finetune", "--data", "no_such_module:make"), "there is no module 'no_such_module'"),
        (("compare", "--methods", "finetune,unsk"), "did you mean unsc?"),
        (("compare", *TINY, "--methods", "finetune", "--metrics", "forget_tst_acc"), "did you mean forget_test_acc?"),
        (("compare", *TINY, "--trials", "0"), "trials=0; it must be at least 1"),
        (("compare", *TINY, "--shadows", "1"), "shadows=1"),
        (("compare", *TINY, "--request", "people"), "request='people'; give classes or records"),
        (("compare", *TINY, "--request", "records", "--records", "2"), "records=2; give 5 or more"),
        (("compare", *TINY, "--request", "records", "--methods", "svd"), "svd forgets classes only, not records"),
        (("compare", *TINY, "--jobs", "-2"), "jobs=-2; it must be at least 1"),
        (("audit", "--weights", "none.pt", *DIGITS), "there is no file none.pt"),
        (("bench", "render"), "there is no folder runs/results; measure something first"),
        (("audit", "--weights", "none.pt", "--model", "digits_cnn", "--forgotten", "3"), "nor an import path"),
    ],
)
def test_mistakes_are_messages(command, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    """On standard error, with exit code 2, and nothing is left behind."""
    code, out, err = command(*words)
    assert (code, out) == (2, "") and err.startswith("error: ") and said in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [("audit",), ("tune",), ("compare", "--trials", "x"), ("no-such-command",)])
def test_misuse_of_options_has_the_same_exit_code(command, words: tuple[str, ...]) -> None:
    code, _, err = command(*words)
    assert code == 2 and "Usage" in err


def test_an_interrupt_of_what_does_not_resume(command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tables, "about_metrics", interrupted)
    assert command("metrics") == (130, "", "stopped; nothing was written\n")
    monkeypatch.setattr(commands, "app", interrupted)
    assert command("metrics") == (130, "", "")


def test_an_audit_end_to_end(command, weights: Path) -> None:
    code, out, err = command(
        "audit", "--weights", "original.safetensors", *DIGITS, "--original", "original.pt",
        "--retrained", "retrained.pt", "--metrics", "retain_test_acc, forget_test_acc,js_forget",
        "--out", "new/audit.json",
    )  # fmt: skip
    assert (code, err) == (0, "") and "Written to new/audit.json" in out
    assert "\nNot forgotten: " in out
    content = json.loads((weights / "new/audit.json").read_text())
    assert content["model"] == "original.safetensors" and content["forgotten"] == [3]
    assert list(content["values"]) == ["retain_test_acc", "forget_test_acc", "js_forget"]
    assert content["values"]["forget_test_acc"]["value"] > 80
    assert content["others"]["retrained"]["values"]["forget_test_acc"]["value"] == 0
    assert set(content["fooled_by"]["forget_test_acc"]) == {"bias_shift", "head_only", "logit_mask"}


def test_an_audit_takes_the_network_as_it_did(command, weights: Path) -> None:
    """For one more release, with a note that says what to write."""
    words = ("--network", "unsc.bench.networks:digits_cnn", "--forgotten", "3", "--metrics", "forget_test_acc")
    code, out, err = command("audit", "--model", "original.pt", *words, "--out", "old.json")
    assert (code, out.count("Written to old.json")) == (0, 1)
    assert err.startswith("note: --network is deprecated") and err.endswith("digits_cnn --weights original.pt\n")
    assert command("audit", "--weights", "original.pt", *DIGITS, *words[4:], "--out", "new.json")[::2] == (0, "")
    assert (weights / "old.json").read_text() == (weights / "new.json").read_text()


def test_an_audit_says_what_was_not_measured(command, weights: Path) -> None:
    """By default all that is possible; on a function's data too."""
    save_tensors(weights / "tiny.safetensors", tiny_scenario.network().state_dict(), {})
    code, out, _ = command(
        "audit", "--weights", "tiny.safetensors", "--model", "tiny_scenario:network", "--forgotten", "1,2", *TINY
    )
    assert code == 0 and "Written to runs/audit-tiny_scenario-make/tiny.json" in out
    line = next(x for x in out.splitlines() if "js_forget" in x)
    assert line.startswith("Not measured: ") and line.endswith("(retrained=...)")
    content = json.loads((weights / "runs/audit-tiny_scenario-make/tiny.json").read_text())
    assert content["forgotten"] == [1, 2] and "forget_test_acc" in content["values"]


def test_a_result_is_not_overwritten_in_silence(command, weights: Path) -> None:
    """A file or a folder is named; a result in it is refused at once, and replaced if so asked."""
    words = ("audit", "--weights", "original.pt", *DIGITS, "--metrics", "forget_test_acc", "--out", "mine")
    (weights / "mine").mkdir()
    code, out, err = command(*words)
    assert (code, err) == (0, "") and "Written to mine/original.json" in out
    before = (weights / "mine/original.json").read_text()
    code, out, err = command(*words, "--seed", "1")
    assert (code, out) == (2, "") and "mine/original.json exists already" in err and "--overwrite" in err
    assert (weights / "mine/original.json").read_text() == before
    assert command(*words[:-1], "mine/original.json")[0] == 2
    (weights / "mine/original.json").write_text("old")
    assert command(*words, "--overwrite")[0] == 0
    assert json.loads((weights / "mine/original.json").read_text())["forgotten"] == [3]
    code, out, _ = command(*words[:-1], "new")  # no ending: a folder, though it is not there yet
    assert code == 0 and (weights / "new/original.json").exists()
    code, out, err = command(*words[:-1], "original.pt/audit.json")
    assert code == 2 and err.startswith("error: ") and "original.pt" in err


def test_an_earlier_demo_is_not_overwritten_in_silence(command, tmp_path: Path) -> None:
    (tmp_path / "runs/demo").mkdir(parents=True)
    (tmp_path / "runs/demo/config.json").write_text('{"kind": "demo"}')
    code, out, err = command("demo")
    assert (code, out) == (2, "") and "runs/demo exists already" in err and "--overwrite" in err


def test_whatever_is_run_goes_to_one_place() -> None:
    """Every default is below `runs`, where git looks away; `results` holds what is committed, and is named by hand."""
    defaults = []
    pending = [get_command(commands.app)]
    while pending:
        one = pending.pop()
        pending += getattr(one, "commands", {}).values()
        defaults += [p.default for p in one.params if p.name in ("out", "work") and p.default is not None]
    assert len(defaults) >= 8 and all(Path(default).parts[0] == "runs" for default in defaults)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--forgotten", "x"), "--forgotten 'x'; give whole numbers"),
        (("--forgotten", "12"), "its classes are 0 to 9"),
        (("--metrics", "js_forget"), "the metric js_forget needs a model retrained"),
        (("--metrics", "js_forgt"), "did you mean js_forget?"),
        (("--retrained", "none.pt"), "there is no file none.pt"),
        (("--model", "unsc.bench.networks:digits_mlp"), "does not fit unsc.bench.networks:digits_mlp"),
        (("--model", "unsc.bench.networks:network"), "it must work without arguments"),
        (("--data", "tiny_scenario:network"), "it must return (train, test)"),
        (("--data", "tiny_scenario:make"), "the model cannot take this data"),
    ],
)
def test_mistakes_in_an_audit_are_messages(command, weights: Path, words: tuple[str, ...], said: str) -> None:
    code, out, err = command("audit", "--weights", "original.pt", *DIGITS, *words)
    assert (code, out) == (2, "") and err.startswith("error: ") and said in err
    assert not (weights / "runs").exists()


def test_an_audit_without_data_says_whose_data_it_took(command, weights: Path) -> None:
    """The digits, which nobody named: a model that does not take them is told so, and not by their shape alone."""
    save_tensors(weights / "tiny.safetensors", tiny_scenario.network().state_dict(), {})
    words = ("audit", "--weights", "tiny.safetensors", "--model", "tiny_scenario:network", "--forgotten", "1")
    said = "the model cannot take the digits, which are the data since no --data was given"
    code, out, err = command(*words)
    assert (code, out) == (2, "") and said in err
    code, _, err = command(*words, "--data", "digits")
    assert code == 2 and "the model cannot take this data" in err and "--data" not in err


def test_tuning_end_to_end(command, tmp_path: Path) -> None:
    code, out, err = command("tune", "gradient_ascent", *TINY, "--trials", "2", "--seed", "1")
    assert (code, err) == (0, "") and "On test data, once: retain" in out
    path = tmp_path / "runs/tune-tiny_scenario-make/gradient_ascent.json"
    content = json.loads(path.read_text())
    assert len(content["tries"]) == 2 and set(content["test"]) == {"retain_acc", "forget_acc"}
    chosen = max(content["tries"], key=lambda one: one["score"])
    assert content["chosen"] == chosen["settings"]
    other = ("tune", "finetune", *TINY, "--tries", "1", "--seed", "1", "--out", path)
    code, _, err = command(*other)
    assert code == 2 and "holds the tuning of gradient_ascent" in err and "--overwrite" in err
    assert json.loads(path.read_text()) == content
    assert command(*other, "--overwrite")[0] == 0
    assert json.loads(path.read_text())["method"] == "finetune"
    code, out, _ = command("tune", "finetune", *TINY, "--tries", "1", "--out", tmp_path)
    assert code == 0 and (tmp_path / "finetune.json").exists()


MINE = '''
import tiny_scenario
from torch import nn
from unsc.errors import Diverged
from unsc.methods import Problem, method

make = tiny_scenario.make


@method(needs=("forget",))
def mine_idle(problem: Problem, *, strength: float = 0.5) -> nn.Module:
    """Mine: does nothing."""
    return problem.copy()


@method(needs=())
def mine_faulty(problem: Problem) -> nn.Module:
    raise ZeroDivisionError("a bug of mine")


@method(needs=())
def mine_lost(problem: Problem) -> nn.Module:
    raise Diverged("the loss became nan")
'''


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A package that registers methods by an entry point, as `pip install` would leave it."""
    info = tmp_path / "mine-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[unsc.methods]\nmine_idle = mine_methods:mine_idle\n")
    (tmp_path / "mine_methods.py").write_text(MINE)
    return tmp_path


@pytest.fixture
def fresh_registry(registered: None) -> Iterator[None]:
    """Entry points are looked for again, and what they register is gone after the test."""
    registry._load.cache_clear()
    yield
    sys.modules.pop("mine_methods", None)


def test_a_method_of_another_package_is_known(
    command, installed: Path, fresh_registry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(installed)
    code, out, _ = command("methods", "mine_idle")
    assert code == 0 and "Mine: does nothing." in out and "strength = 0.5" in out


def test_an_entry_point_that_fails_is_named(
    command, installed: Path, fresh_registry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (installed / "mine_methods.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(installed)
    code, _, err = command("methods")
    registry._load.cache_clear()
    assert code == 2 and "the method mine_idle of mine_methods:mine_idle cannot be loaded" in err


def test_a_method_of_the_datas_module_can_be_tuned(
    command, installed: Path, fresh_registry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `compare` finds it."""
    (installed / "mine_methods.py").rename(installed / "mine_local.py")
    (installed / "mine-0.1.dist-info/entry_points.txt").unlink()
    monkeypatch.syspath_prepend(installed)
    code, out, err = command("tune", "mine_idle", "--data", "mine_local:make", "--tries", "1")
    sys.modules.pop("mine_local", None)
    assert (code, err) == (0, "") and "Written to runs/tune-" in out and "/mine_idle.json" in out


def test_a_method_of_an_entry_point_can_be_tuned(
    command, installed: Path, fresh_registry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(installed)
    code, out, err = command("tune", "mine_idle", *TINY, "--tries", "1")
    assert (code, err) == (0, "") and "Written to runs/tune-" in out and "/mine_idle.json" in out


def test_a_comparison_end_to_end(installed: Path) -> None:
    """In processes of its own, with methods of another package: one is faulty, one falls apart, the rest is there."""
    paths = (installed, Path(__file__).parents[1], Path(unsc.__file__).parents[1])
    words = (
        "compare", "--data", "mine_methods:make", "--methods", "mine_idle,mine_faulty,mine_lost", "--trials", "1",
        "--tune-trials", "0", "--shadows", "0", "--metrics", "retain_test_acc,forget_test_acc", "--jobs", "1",
        "--out", "run",
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "unsc", *words],
        cwd=installed,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    assert "error: judge trial 0 mine_faulty" in done.stderr and "ZeroDivisionError: a bug of mine" in done.stderr
    assert "mine_lost †" in done.stdout and "† Diverged" in done.stdout and "Written to run" in done.stdout
    run = installed / "run"
    content = json.loads((run / "results.json").read_text())
    values = {c["method"]: c["measured"]["values"] for c in content["cells"]}
    assert set(values) == {"original", "retrain", "mine_idle", "mine_lost", "bias_shift", "head_only", "logit_mask"}
    assert values["mine_idle"]["forget_test_acc"] == values["original"]["forget_test_acc"]
    assert values["mine_lost"] == {} and values["retrain"]["forget_test_acc"]["value"] == 0
    assert {"logit_mask", "bias_shift"} <= set(content["metrics"]["forget_test_acc"]["fooled_by"])
    report = (run / "report.md").read_text()
    assert "Made by `unsc compare --data mine_methods:make" in report
    assert "- `mine_lost`: the loss became nan" in report
    assert (run / "results.csv").exists() and (run / "config.json").exists()
