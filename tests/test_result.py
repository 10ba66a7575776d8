"""After the run: results are saved, read back and said in a line."""

from __future__ import annotations

import errno
import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from blobs import blobs, learned, network
from torch import nn

import unsc
from unsc.errors import InvalidData, InvalidRequest
from unsc.request import Request
from unsc.result import Forgotten


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return learned(network(), blobs())


@pytest.fixture(scope="module")
def result(model: nn.Module) -> Forgotten:
    return unsc.forget(model, blobs(), classes=[3], parameters=["2.*"])


def test_a_result_is_read_back(result: Forgotten, tmp_path: Path) -> None:
    """Weights, metrics, options and request are those that were saved; the model that is given stays as it is."""
    folder = result.save(tmp_path / "result")
    other = network()
    before = {name: t.clone() for name, t in other.state_dict().items()}
    back = Forgotten.load(folder, other)
    x = blobs().tensors[0]
    assert torch.equal(back.model(x), result.model(x))
    assert all(torch.equal(t, before[name]) for name, t in other.state_dict().items())
    assert back.metrics == result.metrics
    assert back.request == result.request
    assert back.frozen == result.frozen
    assert back.ok == result.ok
    assert back.options.to_dict() == result.options.to_dict() | {"parameters": ("2.*",)}
    assert repr(back) == repr(result)
    with pytest.raises(InvalidRequest, match="a saved result has no guide"):
        back.guide.check(back.request, torch.tensor([3]))


def test_records_are_read_back(model: nn.Module, tmp_path: Path) -> None:
    result = unsc.forget(model, blobs(), indices=[0, 41], step="paper", energy=0.8, max_passes=1, least_gain=0)
    back = Forgotten.load(result.save(tmp_path / "result"), model)
    assert back.request == result.request
    assert back.options.step == result.options.step


def test_a_result_is_saved_without_its_wrapper(model: nn.Module, tmp_path: Path) -> None:
    """And is read back into any."""
    wrapped = unsc.forget(nn.DataParallel(model), blobs(), classes=[3], max_passes=1)
    folder = wrapped.save(tmp_path / "result")
    plain = Forgotten.load(folder, network()).model
    parallel = Forgotten.load(folder, nn.DataParallel(network())).model
    assert isinstance(parallel, nn.DataParallel)
    x = blobs().tensors[0]
    assert torch.equal(plain(x), wrapped.model(x))
    assert torch.equal(parallel(x), wrapped.model(x))


def test_what_does_not_fit_is_said_to(result: Forgotten, tmp_path: Path) -> None:
    folder = result.save(tmp_path / "result")
    with pytest.raises(InvalidData, match=r"(?s)does not fit this model.*size mismatch"):
        Forgotten.load(folder, network(7))
    with pytest.raises(InvalidRequest, match="there is no folder"):
        Forgotten.load(tmp_path / "nowhere", network())
    metrics = json.loads((folder / "metrics.json").read_text())
    del metrics["status"]
    (folder / "metrics.json").write_text(json.dumps(metrics))
    with pytest.raises(InvalidData, match="has no 'status'; it was saved by another version"):
        Forgotten.load(folder, network())
    (folder / "config.json").write_text("{")
    with pytest.raises(InvalidData, match=r"cannot read .*config\.json"):
        Forgotten.load(folder, network())


def test_a_result_replaces_another_if_asked_to(result: Forgotten, tmp_path: Path) -> None:
    """A result alone is replaced; a folder with anything else in it is left as it is."""
    folder = result.save(tmp_path / "result")
    with pytest.raises(InvalidRequest, match="exists already"):
        result.save(folder)
    (folder / "metrics.json").write_text("old")
    result.save(folder, overwrite=True)
    assert Forgotten.load(folder, network()).ok == result.ok
    result.save(tmp_path / "new", overwrite=True)
    (folder / "thesis.tex").write_text("mine")
    with pytest.raises(InvalidRequest, match=r"holds thesis\.tex"):
        result.save(folder, overwrite=True)
    assert (folder / "thesis.tex").read_text() == "mine"


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_file_in_the_way_is_named(result: Forgotten, tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "result"):
        with pytest.raises(InvalidRequest, match="file"):
            result.save(folder, overwrite=overwrite)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.EACCES, "permissions"), (errno.EROFS, "permissions"), (errno.ENOSPC, "disk is full"), (errno.EIO, "I/O")],
)
def test_what_the_operating_system_says_is_said_in_words(
    result: Forgotten, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OSError(number, "I/O")

    monkeypatch.setattr("unsc.storage.files.save_file", refuse)
    with pytest.raises(InvalidRequest, match=rf"cannot write to .*{said}"):
        result.save(tmp_path / "result")
    assert not (tmp_path / "result").exists()


def test_reprs_are_short(result: Forgotten) -> None:
    assert repr(result.metrics).startswith("<RunMetrics: forgotten, forget_acc 0.0 % (before 100.0 %), retained_kl")
    assert len(repr(result.metrics)) < 160
    assert repr(result.request) == "<Request: forget class 3 of 4 classes>"
    assert repr(Request(5, (0, 1), gone=(2,))) == "<Request: forget classes 0, 1 of 5 classes, 2 gone before>"
    assert repr(Request(5, records=(4, 8))) == "<Request: forget 2 records of 5 classes>"


def test_patterns_choose_parameters(result: Forgotten) -> None:
    assert result.frozen == {"0.weight": "not requested", "0.bias": "not requested"}


def test_progress_is_shown_if_asked_for(model: nn.Module, capsys: pytest.CaptureFixture[str]) -> None:
    """True is a bar, False nothing, and a function of one's own is called."""
    shown: list[str] = []

    @contextmanager
    def own(description: str, total: int) -> Any:
        shown.append(description)
        yield lambda: None

    for progress in (True, False, own):
        unsc.forget(model, blobs(), classes=[3], max_passes=1, progress=progress)
    assert "forgetting" in shown
