"""How records are measured: rows that resume, requests in turn, records that are alike, and the page of it all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_scenario
import torch
from torch.nn import functional as F
from torch.utils.data import TensorDataset
from typer.testing import CliRunner

from unsc.bench.data.shared.split import Split
from unsc.bench.memorising import of_photographs
from unsc.bench.records import amounts, photographs, sequence
from unsc.bench.records.case import Case, Row
from unsc.bench.records.looking import look, worst_class
from unsc.bench.records.photographs import Bed
from unsc.bench.records.run import CASES, run_records, write_page
from unsc.bench.training.protocol import Protocol
from unsc.cli.bench import app
from unsc.datasets import read, size_of
from unsc.errors import InvalidData, InvalidRequest
from unsc.logits import accuracy

ROOT = Path(__file__).parents[2]
committed = pytest.mark.skipif(not (ROOT / "results").exists(), reason="results are not part of this copy")


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Bed:
    """Made-up pictures whose brightness is their class."""
    labels = torch.arange(150) % 3
    noise = torch.randn(150, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    pictures = TensorDataset(labels[:, None, None, None] + 0.3 * noise, labels)
    split = Split("made up", pictures, pictures, ("a", "b", "c"))
    made = of_photographs(split, (90, 60, 60), Protocol(epochs=10, batch_size=16, schedule="one-cycle"))
    return Bed(made, tmp_path_factory.mktemp("models"), records=10)


def test_every_seed_is_measured_once(tmp_path: Path) -> None:
    asked: list[int] = []

    def measure(models: Path, seed: int) -> Iterator[Row]:
        asked.append(seed)
        yield {"what": "a", "value": 10.0 + seed, "stopped": "kl"}
        yield {"what": "b", "value": 0.25}

    case = Case("some", "Something", {"value": "a value", "stopped": "why"}, (0, 1), measure)
    path = tmp_path / "some.json"
    case.run(path, tmp_path)
    rows = case.run(path, tmp_path)
    assert asked == [0, 1] and len(rows) == 4
    assert case.table(rows).blocks == ((("a", "10.50 ± 0.71", "kl"), ("b", "0.250 ± 0.000", "")),)


def test_a_trial_has_the_original_retraining_and_ours(bed: Bed) -> None:
    """Each network is trained once, on all pictures or without the records, and learns them."""
    rows = list(photographs.rows(bed, 0))
    assert [row["what"] for row in rows] == ["original", "retrained", "unsc"]
    assert all(row["test_acc"] > 90 and 0 <= row["js"] <= 1 for row in rows)
    assert rows[2]["epochs"] > 0
    assert len(list(bed.models.glob("*.safetensors"))) == 2


def test_records_that_are_alike_are_of_one_class(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amounts, "OF_A_USER", 5)
    model, train = bed.network(bed.trial(0).original), bed.read("train")
    found = amounts.alike(model, train, 3, 0)
    assert len(set(found)) == 5 and len(train.labels[found].unique()) == 1


def test_what_was_asked_for_is_gone_from_the_data_of_the_next_request() -> None:
    data = tiny_scenario.make()
    model = data.recipe(data.train, 0)
    last, then = sequence.in_turn(model, data, [[0, 5], [90, 3]], 0)
    assert type(last) is type(model) and 0 <= then <= 100
    with pytest.raises(ValueError, match="0 is not in list"):
        sequence.in_turn(model, data, [[0], [0]], 0)


def test_looks_are_counted_by_hand() -> None:
    data = tiny_scenario.make()
    model = data.recipe(data.train, 0)
    test, records = read(data.test, range(size_of(data.test))), read(data.train, range(10))
    found = look(model, records, test, model)
    assert found["test_acc"] == accuracy(model, test) and found["js"] == pytest.approx(0, abs=1e-6)
    with torch.no_grad():
        losses = [F.cross_entropy(model(b.inputs).double(), b.labels, reduction="none") for b in (records, test)]
    assert found["attack"] == pytest.approx((losses[0][:, None] < losses[1]).double().mean().item())
    assert worst_class(model, model, test) == 0


@committed
def test_the_page_is_what_the_committed_rows_give(tmp_path: Path) -> None:
    """Byte for byte, although its tables were emptied before."""
    shutil.copytree(ROOT / "results" / "records", tmp_path / "results" / "records")
    (tmp_path / "docs").mkdir()
    text = (ROOT / "docs" / "records.md").read_text()
    page = tmp_path / "docs" / "records.md"
    names = [path.stem for path in (tmp_path / "results" / "records").glob("*.json")]
    emptied = text
    for name in names:
        before, begin, rest = emptied.partition(f"<!-- {name} -->\n")
        emptied = before + begin + rest[rest.index(f"<!-- end {name} -->") :]
    page.write_text(emptied)
    assert names and emptied != text
    assert write_page(tmp_path / "results") == [page]
    assert page.read_text() == text


def test_what_holds_no_rows_is_named(tmp_path: Path) -> None:
    (tmp_path / "results" / "records").mkdir(parents=True)
    assert write_page(tmp_path / "results") == []
    (tmp_path / "results" / "records" / "sequence.json").write_text(json.dumps({"rows": [{}]}))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "records.md").write_text("<!-- sequence -->\n<!-- end sequence -->\n")
    with pytest.raises(InvalidData, match=r"sequence\.json does not hold rows"):
        write_page(tmp_path / "results")


def test_unknown_cases_are_refused_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no case 'sequences'; did you mean sequence"):
        list(run_records(["mislabelled", "sequences"], tmp_path))
    assert list(tmp_path.iterdir()) == []
    done = CliRunner().invoke(app, ["records", "sequences", "--out", str(tmp_path)])
    assert isinstance(done.exception, InvalidRequest)
    assert set(CASES) == {"mislabelled", "sequence", "photographs", "amounts"}
