"""Our step beside the paper's: rows, their references, and the page that shows them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from torch import nn
from torch.utils.data import TensorDataset
from typer.testing import CliRunner

from unsc.bench.datasets import Split
from unsc.bench.steps import by_class
from unsc.bench.steps.page import write_page
from unsc.bench.steps.run import run_steps
from unsc.bench.steps.setups import Setup
from unsc.cli.bench import app
from unsc.errors import InvalidData, InvalidRequest
from unsc.evaluation import evaluate
from unsc.methods.logit_mask import LogitMask

ROOT = Path(__file__).parents[2]
committed = pytest.mark.skipif(not (ROOT / "results").exists(), reason="results are not part of this copy")


@pytest.fixture(scope="module")
def two_classes(digits: Split, digits_model: nn.Module) -> Setup:
    return Setup("digits", digits_model, digits, (3, 8), {"unsc": {"max_passes": 1}})


def test_rows_are_measured_once(two_classes: Setup, tmp_path: Path) -> None:
    path = tmp_path / "digits.json"
    rows = by_class.run(two_classes, path)
    assert [(row["method"], row["forget"]) for row in rows] == [
        (method, k) for method in ("original", "logit_mask", "unsc") for k in (3, 8)
    ]
    content = json.loads(path.read_text())
    assert content["rows"] == rows and content["case"] == "digits"
    path.write_text(json.dumps(content | {"rows": rows[:-1]}))
    assert by_class.run(two_classes, path)[:-1] == rows[:-1]
    written = path.stat().st_mtime_ns
    by_class.run(two_classes, path)
    assert path.stat().st_mtime_ns == written
    grid = by_class.table(two_classes, rows)
    assert [row[0] for row in grid.blocks[2]] == ["unsc: 3", "unsc: 8", "unsc: mean"]


def test_references_are_what_evaluation_finds(two_classes: Setup) -> None:
    """From one look at the test data, the same as from each network by itself."""
    images, labels = two_classes.data.test.tensors
    for row in by_class.references(two_classes):
        gone = labels == row["forget"]
        model = two_classes.model if row["method"] == "original" else LogitMask(two_classes.model, [row["forget"]])
        parts = [TensorDataset(images[part], labels[part]) for part in (~gone, gone)]
        found = evaluate(model, retain_test=parts[0], forget_test=parts[1])
        assert row["retain_test_acc"] == pytest.approx(found.retain_test_acc)
        assert row["forget_test_acc"] == pytest.approx(found.forget_test_acc)


def test_unknown_setups_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no setup 'digit'; did you mean digits"):
        list(run_steps(["mlp", "digit"], tmp_path))
    with pytest.raises(InvalidRequest, match="give --checkpoint"):
        list(run_steps(["resnet20"], tmp_path))
    assert list(tmp_path.iterdir()) == []


@committed
def test_the_page_is_what_the_committed_rows_give(tmp_path: Path) -> None:
    """Byte for byte, although its tables were emptied before."""
    shutil.copytree(ROOT / "results" / "steps", tmp_path / "results" / "steps")
    (tmp_path / "docs").mkdir()
    text = (ROOT / "docs" / "steps.md").read_text()
    (tmp_path / "docs" / "steps.md").write_text("\n".join(x for x in text.split("\n") if not x.startswith("| ")))
    assert write_page(tmp_path / "results") == [tmp_path / "docs" / "steps.md"]
    assert (tmp_path / "docs" / "steps.md").read_text() == text


def test_without_a_page_or_rows_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "results" / "steps").mkdir(parents=True)
    assert write_page(tmp_path / "results") == []
    (tmp_path / "results" / "steps" / "digits.json").write_text("{}")
    assert write_page(tmp_path / "results") == []
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "steps.md").write_text("<!-- digits -->\n<!-- end digits -->\n")
    with pytest.raises(InvalidData, match=r"digits\.json does not hold rows"):
        write_page(tmp_path / "results")


def test_the_command_names_what_is_wrong(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["steps", "digit", "--out", str(tmp_path)])
    assert isinstance(done.exception, InvalidRequest) and "did you mean digits" in str(done.exception)
