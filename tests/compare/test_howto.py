"""The code of the page on comparisons of one's own is carried out as it stands there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from one_process import InThisProcess
from torch import nn

from unsc.compare import Config, Scenario, compare
from unsc.compare import run as run_module
from unsc.compare.results import Results
from unsc.compare.scenarios import scenario
from unsc.datasets import size_of

PAGE = (Path(__file__).parents[2] / "docs" / "comparison-howto.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with the modules of the page in it."""
    names = []
    for block in BLOCKS:
        if found := re.match(r"# (\w+)\.py\n", block):
            (tmp_path / f"{found[1]}.py").write_text(block)
            names.append(found[1])
    assert names == ["my_scenario", "my_text"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(run_module, "Workers", InThisProcess)
    yield tmp_path
    for name in names:
        sys.modules.pop(name, None)


def test_every_field_of_a_scenario_is_explained() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert rows == [field.name for field in fields(Scenario)]


def test_the_scenario_is_compared(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the code that shows progress: networks learn the classes, and unsc forgets one."""
    shown: dict[str, Any] = {"__name__": "__main__"}
    exec(next(block for block in BLOCKS if "progress=bar" in block), shown)
    finished = shown["finished"]
    assert finished.failed == {} and finished.comparison.folder == Path("runs/mine")
    results = Results.read(finished.comparison)
    assert results.values("original", "forget_test_acc")[0] > 80 >= results.values("original", "rebound")[0]
    assert results.values("unsc", "forget_test_acc")[0] < 10 and results.values("unsc", "later_forget_acc")[0] < 10


def test_requests_one_after_the_other(here: Path) -> None:
    mine, shown = scenario("my_scenario:make"), dict[str, Any]()
    exec(next(block for block in BLOCKS if "def in_turn" in block), shown)
    model: nn.Module = shown["in_turn"](mine.recipe(mine.train, 0), mine.train, [[1], [2]])
    predicted = {int(model(mine.test[i][0][None]).argmax()) for i in range(size_of(mine.test))}
    assert predicted == {0, 3}


def test_text_of_hugging_face_is_compared(here: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("datasets")
    metrics = ("retain_test_acc", "forget_test_acc")
    config = Config("my_text:make", ("retrain", "unsc"), trials=1, tune_tries=0, shadows=0, metrics=metrics)
    finished = compare(config, here / "run")
    assert finished.failed == {}
    results = Results.read(finished.comparison)
    assert results.values("original", "forget_test_acc")[0] > 80
    assert results.values("unsc", "forget_test_acc")[0] < 10
