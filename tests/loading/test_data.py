"""Arrays, tables and data sets that users bring: what can be read is, what cannot is said with the limit."""

from __future__ import annotations

import hashlib
import pickle
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from unsc.datasets import read
from unsc.errors import InvalidData, InvalidRequest, UnscError
from unsc.loading.data import LoadedData, load_data
from unsc.loading.limits import Limits
from unsc.loading.models import LoadedModel, write_weights

MODULE = """
import torch
from torch.utils.data import TensorDataset

def length(text):
    return torch.tensor([float(len(text))])

class Own(TensorDataset):
    ids = ["a", "b", "c"]
    columns = {"user": ["x", "y", "x"]}
    classes = ["no", "yes"]

def own():
    return Own(torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 0]))

def plain():
    return [(torch.ones(2), 1), (torch.zeros(2), 0), (torch.ones(2), 0)]

def both():
    return own(), own()
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "brought_data.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "brought_data", raising=False)
    return tmp_path


@pytest.fixture
def model() -> LoadedModel:
    return LoadedModel(nn.Linear(2, 2), "app:net", None, None, None, None, write_weights)


def npz(path: Path, **arrays: Any) -> str:
    np.savez(path, **arrays)
    return str(path)


def texts(data: LoadedData) -> list[str]:
    return [data.content.raw(i) for i in range(len(data))]


def test_arrays(here: Path, model: LoadedModel) -> None:
    """Bytes are pixels; other numbers are what they are; the rest are columns."""
    x = np.arange(24, dtype=np.uint8).reshape(3, 2, 2, 2)
    path = npz(here / "a.npz", x=x, y=[2, 0, 1], id=["p", "q", "r"], user=[7, 8, 7])
    data = load_data(path, model=model)
    assert (list(data.ids), data.labels.tolist(), data.class_names) == (["p", "q", "r"], [2, 0, 1], None)
    assert torch.equal(data.dataset[1][0], torch.arange(8, 16).reshape(2, 2, 2) / 255)
    assert list(data.column("user")) == ["7", "8", "7"]
    assert data.fingerprint(2) == hashlib.sha256(x[2].tobytes()).hexdigest()
    tokens = npz(here / "b.npz", inputs=np.array([[1, 2], [3, 4]]), labels=["b", "a"])
    data = load_data(tokens, model=model)
    assert (list(data.ids), data.labels.tolist(), data.class_names) == (["0", "1"], [1, 0], ("a", "b"))
    assert data.dataset[0][0].dtype == torch.int64
    named = npz(here / "c.npz", x=np.ones((2, 3)), y=[2, 0], classes=["ant", "bee", "cow"])
    assert load_data(named, model=model).class_names == ("ant", "bee", "cow")
    numbered = load_data(named, model=replace(model, class_names=("cow", "bee", "ant")))
    assert numbered.labels.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": np.ones((2, 3))}, "one must be called labels or label or y or target"),
        ({"z": np.ones((2, 3)), "y": [0, 1]}, "has the arrays z, y; one must be called x or"),
        ({"x": np.ones((2, 3)), "y": [0, 1, 2]}, "give one row and one label"),
        ({"x": np.ones((2, 3)), "y": [0.5, 1]}, "give one row and one label"),
        ({"x": np.ones((0, 3)), "y": np.ones(0, dtype=int)}, "has no samples"),
        ({"x": np.ones((2, 3)), "y": [0, 2], "classes": ["a", "b"]}, "names 2 classes and has labels from 0 to 2"),
        ({"x": np.ones((2, 3)), "y": [0, 1], "id": ["a", "a"]}, "has the ids a more than once"),
        ({"x": np.ones((2, 3)), "y": [0, 1], "id": [[7], [8]]}, r"has id of shape \(2, 1\) for 2 samples"),
        ({"x": np.ones((2, 3)), "y": [0, 1], "id": [7]}, r"has id of shape \(1,\) for 2 samples"),
        ({"x": np.ones((2, 3)), "y": [0, 1], "classes": ["a", "a", "b"]}, "several classes by the same name"),
        ({"x": np.ones((2, 3)), "y": np.array([0, 2**64 - 1], dtype=np.uint64)}, "has the label 18446744073709551615"),
        ({"x": np.array([{}, []], dtype=object), "y": [0, 1]}, "holds Python objects, and reading them would run code"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(here: Path, model: LoadedModel, arrays: Any, said: str) -> None:
    with pytest.raises(InvalidData, match=said):
        load_data(npz(here / "a.npz", **arrays), model=model)


def test_archives_of_hostile_size_are_refused(here: Path, model: LoadedModel) -> None:
    """Zeros pack well: what they unpack to is asked first. A head that promises more than is there is refused too."""
    np.savez_compressed(here / "zeros.npz", x=np.zeros((1000, 1000)), y=np.zeros(1000, dtype=int))
    assert (here / "zeros.npz").stat().st_size < 20_000
    with pytest.raises(InvalidData, match=r"too large, unpacked: 8,008,\d+ is above the limit array_bytes=1,000,000"):
        load_data(str(here / "zeros.npz"), model=model, limits=Limits(array_bytes=1_000_000))
    np.save(here / "x.npy", np.zeros((10, 100)))
    head = (here / "x.npy").read_bytes().replace(b"(10, 100), }      ", b"(10, 10000000000)}")
    with zipfile.ZipFile(here / "lies.npz", "w") as archive:
        archive.writestr("x.npy", head)
    with pytest.raises(InvalidData, match=r"says that it has 800,000,000,000 bytes, and has 8,128"):
        load_data(str(here / "lies.npz"), model=model)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=6))
def test_damaged_arrays_are_a_message(tmp_path: Path, model: LoadedModel, changes: list[tuple[float, int]]) -> None:
    content = bytearray(Path(npz(tmp_path / "a.npz", x=np.ones((2, 3)), y=[0, 1])).read_bytes())
    for place, byte in changes:
        content[int(place * len(content))] = byte
    (tmp_path / "a.npz").write_bytes(content)
    try:
        load_data(str(tmp_path / "a.npz"), model=model)
    except UnscError as e:
        assert "a.npz" in str(e)


def test_tables_of_texts(here: Path, model: LoadedModel) -> None:
    """CSV and Parquet read alike; copies of a text have one fingerprint, whatever their ids and labels."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = {
        "id": ["u1", "u2", "u3"],
        "text": ['one, "two"\nthree', "Grüße", "Grüße"],
        "label": ["b", "a", "b"],
        "user": ["x", "y", "x"],
    }
    quoted = ['u1,"one, ""two""\nthree",b,x', "u2,Grüße,a,y", "u3,Grüße,b,x"]
    (here / "a.csv").write_text("\n".join(["id,text,label,user", *quoted]), encoding="utf-8-sig")
    parquet.write_table(arrow.table(rows), here / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        data = load_data(name, model=model, transform="brought_data:length")
        assert texts(data) == rows["text"] and list(data.ids) == rows["id"]
        assert (data.labels.tolist(), data.class_names) == ([1, 0, 1], ("a", "b"))
        assert data.dataset[1][0].tolist() == [5.0] and list(data.column("user")) == rows["user"]
        assert data.fingerprint(1) == data.fingerprint(2) == hashlib.sha256("Grüße".encode()).hexdigest()
    with pytest.raises(InvalidData, match=r"the data holds texts, and the model has no tokenizer; give --transform"):
        load_data("a.csv", model=model)


def test_categories_in_parquet_are_texts(here: Path, model: LoadedModel) -> None:
    """As pandas writes them."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = {name: arrow.array(values).dictionary_encode() for name, values in {"id": "xy", "label": "ba"}.items()}
    parquet.write_table(arrow.table({"text": ["one", "two"], **rows}), here / "a.parquet")
    data = load_data("a.parquet", model=model, transform="brought_data:length")
    assert (list(data.ids), data.labels.tolist(), data.class_names) == (["x", "y"], [1, 0], ("a", "b"))


def test_columns_of_parquet_that_are_needed_and_cannot_be_read_are_named(here: Path, model: LoadedModel) -> None:
    """Ids are a float where one of them is missing; the number of a row in their place would be another sample."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = {"text": ["a", "b"], "label": [0, 1], "id": [1, 0]}
    for name, values in {"id": [1.0, 0.0], "label": [0.0, 1.0], "text": [b"a", b"b"]}.items():
        parquet.write_table(arrow.table(rows | {name: values}), here / "a.parquet")
        with pytest.raises(InvalidData, match=f"{name} in a.parquet is of type (double|binary); write it as texts"):
            load_data("a.parquet", model=model, transform="brought_data:length")
    twice = arrow.Table.from_arrays([arrow.array(["a"])] * 3, names=["text", "label", "label"])
    parquet.write_table(twice, here / "a.parquet")
    with pytest.raises(InvalidData, match="has the columns text, label, label, some of them twice"):
        load_data("a.parquet", model=model, transform="brought_data:length")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty; its first row must name the columns"),
        (b"text,label\n", "has no rows"),
        (b"text,label\na,0\nb\n", "row 2 of a.csv has 1 fields where the first row has 2"),
        (b"text,class\na,0\n", "has the columns text, class; the column of labels must be called"),
        (b"text,text\na,0\n", "some of them twice"),
        (b"text,label\na,\n", "row 0 of a.csv has no label"),
        (b"text,label\na,0.0\nb,1.0\n", "labels such as 0.0; give whole numbers"),
        (b"text,label\na,0\nb," + b"9" * 5000, "has the label 9{40}; give numbers from 0, of at most 9 digits"),
        (b"id,text,label\n1,a,0\n1,b,1\n", "has the ids 1 more than once"),
        (b"text,label\n\xff\xfe,0\n", "is not UTF-8"),
        (b'text,label\n"a,0\n', "is no sound CSV file"),
        (b"text,label\n" + b"x" * 200_000 + b",0\n", "is no sound CSV file"),
        (b"text,label\n" + b"x" * 120_000 + b",0\n", "120,000 is above the limit field_chars=100,000"),
        (b"text,label\n" + b"x," * 900_000 + b"0\n", "is above the limit row_chars=1,048,576"),
        (b'text,label\n"' + b"x,\n" * 40_000 + b'"\n', "is above the limit field_chars|has 1 fields"),
    ],
)
def test_csv_that_does_not_fit_is_refused(here: Path, model: LoadedModel, content: bytes, said: str) -> None:
    (here / "a.csv").write_bytes(content)
    with pytest.raises(InvalidData, match=said):
        load_data("a.csv", model=model, transform="brought_data:length")


def test_limits_of_tables_are_named(here: Path, model: LoadedModel) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (here / "a.csv").write_text("text,label\n" + "a,0\n" * 9)
    with pytest.raises(InvalidData, match="too many rows: 9 is above the limit samples=8"):
        load_data("a.csv", model=model, transform="brought_data:length", limits=Limits(samples=8))
    with pytest.raises(InvalidData, match="is too large a file: 47 is above the limit table_bytes=9"):
        load_data("a.csv", model=model, transform="brought_data:length", limits=Limits(table_bytes=9))
    # One long text, of which a dictionary makes many.
    parquet.write_table(arrow.table({"text": ["x" * 90_000] * 3000, "label": [0] * 3000}), here / "a.parquet")
    assert (here / "a.parquet").stat().st_size < 200_000
    with pytest.raises(InvalidData, match=r"too large, unpacked: .* is above the limit table_bytes=1,000,000"):
        load_data("a.parquet", model=model, transform="brought_data:length", limits=Limits(table_bytes=1_000_000))
    with pytest.raises(InvalidData, match="too long a text: 90,000 is above the limit field_chars=100"):
        load_data("a.parquet", model=model, transform="brought_data:length", limits=Limits(field_chars=100))
    (here / "a.parquet").write_bytes(b"PAR1 and nothing more PAR1")
    with pytest.raises(InvalidData, match="cannot be read as Parquet"):
        load_data("a.parquet", model=model)


def test_data_of_a_users_code(here: Path, model: LoadedModel) -> None:
    data = load_data("brought_data:own", model=model)
    assert (list(data.ids), data.labels.tolist(), data.class_names) == (["a", "b", "c"], [0, 1, 0], ("no", "yes"))
    assert list(data.column("user")) == ["x", "y", "x"]
    data = load_data("brought_data:plain", model=model)
    assert (list(data.ids), data.labels.tolist()) == (["0", "1", "2"], [1, 0, 0])
    assert data.fingerprint(0) == data.fingerprint(2) != data.fingerprint(1)
    with pytest.raises(InvalidData, match="gives a tuple; it must give one data set"):
        load_data("brought_data:both", model=model)
    with pytest.raises(InvalidRequest, match="makes its samples itself; leave --transform"):
        load_data("brought_data:own", model=model, transform="brought_data:length")
    with pytest.raises(InvalidData, match=r"classes no, yes, and the model yes, no; they must be the same"):
        load_data("brought_data:own", model=replace(model, class_names=("yes", "no")))


def test_data_that_is_not_there_says_what_can_be(here: Path, model: LoadedModel) -> None:
    for spec in ("nowhere", "nowhere.csv", "data/train"):
        with pytest.raises(InvalidRequest, match=r"there is no data .*; give a folder with one folder of images"):
            load_data(spec, model=model)
    (here / "a.tar").touch()
    with pytest.raises(InvalidRequest, match=r"ends in '\.tar', which is not known"):
        load_data("a.tar", model=model)
    data = load_data("brought_data:own", model=model)
    with pytest.raises(InvalidRequest, match=r"no sample with the id '\.\./a'; its ids look like 'a'"):
        data.positions(["a", "../a"])


def test_saved_data_sets(here: Path, model: LoadedModel) -> None:
    """Of images, of texts, and of tokens; their splits are named, and files elsewhere refused."""
    hf = pytest.importorskip("datasets")
    pillow = pytest.importorskip("PIL.Image")
    names = hf.ClassLabel(names=["green", "red"])
    rows = [{"picture": pillow.new("RGB", (2, 2), (51 * i, 0, 0)), "label": i % 2, "id": f"n{i}"} for i in range(4)]
    images = hf.Dataset.from_list(rows, features=hf.Features(picture=hf.Image(), label=names, id=hf.Value("string")))
    images.save_to_disk(str(here / "images"))
    data = load_data("images", model=model)
    assert (list(data.ids), data.class_names) == (["n0", "n1", "n2", "n3"], ("green", "red"))
    assert data.labels.tolist() == [0, 1, 0, 1]
    assert data.dataset[3][0].shape == (3, 2, 2) and data.dataset[3][0][0, 0, 0].item() == pytest.approx(0.6)
    tokens = hf.Dataset.from_dict({"input_ids": [[1, 2], [3, 4]], "labels": [0, 1]})
    hf.DatasetDict(train=tokens, test=tokens).save_to_disk(str(here / "splits"))
    with pytest.raises(InvalidData, match=r"holds the splits test, train; name one of them, as in splits/test"):
        load_data("splits", model=model)
    data = load_data("splits/train", model=model)
    batch = read(data.dataset, [0, 1])
    assert batch.inputs["input_ids"].tolist() == [[1, 2], [3, 4]] and batch.labels.tolist() == [0, 1]
    state = here / "splits/train/state.json"
    state.write_text(state.read_text().replace("data-00000", "../test/data-00000"))
    with pytest.raises(InvalidData, match="leads out of splits/train"):
        load_data("splits/train", model=model)


def test_loaded_data_can_go_to_other_processes(here: Path, model: LoadedModel) -> None:
    (here / "a.csv").write_text("text,label\nab,0\nc,1\n")
    data = load_data("a.csv", model=model, transform="brought_data:length")
    assert pickle.loads(pickle.dumps(data.dataset))[0][0].tolist() == [2.0]
