"""Data sets are read from their authors' files, and from nothing else."""

from __future__ import annotations

import gzip
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.io import savemat

from unsc.bench.datasets import Split, load
from unsc.errors import InvalidData, InvalidRequest


def test_the_digits(digits: Split) -> None:
    """1,797 images in two parts that share none, of all classes in like numbers, normalised."""
    (x, y), (tx, ty) = digits.train.tensors, digits.test.tensors
    assert x.shape[1:] == tx.shape[1:] == (1, 8, 8)
    assert (len(x), len(tx)) == (1198, 599)
    assert x.dtype == torch.float32
    assert y.dtype == torch.int64
    assert torch.cat([x, tx]).mean().item() == pytest.approx(0, abs=0.01)
    assert torch.cat([x, tx]).std().item() == pytest.approx(1, abs=0.01)
    assert (y.bincount(minlength=10) / 2 - ty.bincount(minlength=10)).abs().max() <= 1
    assert not (x.flatten(1)[:, None] == tx.flatten(1)).all(dim=2).any()
    assert digits.classes == tuple("0123456789")
    assert torch.equal(load("digits").train.tensors[0], x)


def test_an_unknown_data_set_or_no_folder_is_refused() -> None:
    with pytest.raises(
        InvalidRequest, match=r"no data set 'mnist'; there are cifar-10, .*, digits, fashion-mnist, svhn"
    ):
        load("mnist")
    for name in ("fashion-mnist", "cifar-10", "cifar-100", "svhn"):
        with pytest.raises(InvalidRequest, match=f"{name} is read from files"):
            load(name)


RNG = np.random.default_rng(0)
PICTURES = RNG.integers(0, 256, (5, 28, 28), dtype=np.uint8)
CLOTHES = np.array([3, 1, 4, 1, 5], dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def fashion(folder: Path) -> Path:
    """A folder of small files in FashionMNIST's form; the training images."""
    raw = folder / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for prefix, n in (("train", 5), ("t10k", 2)):
        (raw / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(PICTURES[:n])))
        (raw / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(CLOTHES[:n])))
    return raw / "train-images-idx3-ubyte.gz"


def test_fashion_mnist_is_read_and_padded(tmp_path: Path) -> None:
    """Each pixel, normalised, with a black border of two pixels."""
    fashion(tmp_path)
    split = load("fashion-mnist", tmp_path)
    x, y = split.train.tensors
    assert x.shape == (5, 1, 32, 32)
    assert y.tolist() == CLOTHES.tolist()
    assert len(split.test) == 2
    pixels = (x * 0.3530 + 0.2860) * 255
    assert (pixels[:, 0, 2:-2, 2:-2].round().int().numpy() == PICTURES).all()
    assert pixels[:, :, :2].abs().max() < 1e-3
    assert len(split.classes) == 10


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(idx(PICTURES))[:-9], "not a whole gzip file"),
        (b"no gzip", "not a whole gzip file"),
        (gzip.compress(idx(PICTURES))[:40] + b"x" * 40 + gzip.compress(idx(PICTURES))[80:], "not a whole gzip file"),
        (gzip.compress(b""), "not an IDX file"),
        (gzip.compress(b"<html>not found</html>"), "not an IDX file"),
        (gzip.compress(idx(PICTURES)[:9]), "ends inside its header"),
        (gzip.compress(idx(PICTURES)[:-1]), r"shape \(5, 28, 28\) but holds 3919 values"),
        (gzip.compress(idx(PICTURES[:, :20])), r"\(5, 20, 28\).*\(n, 28, 28\)"),
        (gzip.compress(idx(PICTURES[:4])), r"\(4, 28, 28\) and labels of shape \(5,\)"),
        (gzip.compress(idx(CLOTHES)), r"shape \(5,\)"),
    ],
    ids=("cut", "text", "damaged", "empty", "page", "header", "short", "size", "fewer", "labels"),
)
def test_a_broken_idx_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    fashion(tmp_path).write_bytes(content)
    with pytest.raises(InvalidData, match=rf"FashionMNIST.*{message}"):
        load("fashion-mnist", tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    fashion(tmp_path).unlink()
    with pytest.raises(InvalidData, match=r"cannot read .*train-images-idx3-ubyte\.gz \(No such file"):
        load("fashion-mnist", tmp_path)


def test_a_label_out_of_range_is_named(tmp_path: Path) -> None:
    labels = fashion(tmp_path).with_name("train-labels-idx1-ubyte.gz")
    labels.write_bytes(gzip.compress(idx(np.array([3, 1, 10, 255, 5], dtype=np.uint8))))
    with pytest.raises(InvalidData, match=r"train-labels.* has labels 10, 255; they must be 0 to 9"):
        load("fashion-mnist", tmp_path)


PHOTOS = RNG.integers(0, 256, (6, 3072), dtype=np.uint8)


def cifar(folder: Path, *, as_bytes: bool = True) -> Path:
    """A folder of one photo for each batch, in CIFAR-10's form; the first batch."""
    root = folder / "cifar-10-batches-py"
    root.mkdir()

    def dump(name: str, content: dict[str, Any]) -> None:
        keyed = {k.encode(): v for k, v in content.items()} if as_bytes else content
        (root / name).write_bytes(pickle.dumps(keyed, protocol=2))

    for i in range(6):
        name = f"data_batch_{i + 1}" if i < 5 else "test_batch"
        dump(name, {"data": PHOTOS[i : i + 1], "labels": [i]})
    names = [f"class {k}" for k in range(10)]
    dump("batches.meta", {"label_names": [n.encode() for n in names] if as_bytes else names})
    return root / "data_batch_1"


@pytest.mark.parametrize("as_bytes", [True, False])
def test_cifar_is_read(tmp_path: Path, as_bytes: bool) -> None:
    """Red, green and blue planes, row by row, each with its own mean."""
    cifar(tmp_path, as_bytes=as_bytes)
    split = load("cifar-10", tmp_path)
    x, y = split.train.tensors
    assert x.shape == (5, 3, 32, 32)
    assert y.tolist() == [0, 1, 2, 3, 4]
    assert split.test.tensors[1].tolist() == [5]
    assert split.classes[9] == "class 9"
    for channel, mean, std in ((0, 0.485, 0.229), (1, 0.456, 0.224), (2, 0.406, 0.225)):
        pixel = PHOTOS[2, 1024 * channel + 32 * 7 + 5] / 255
        assert x[2, channel, 7, 5].item() == pytest.approx((pixel - mean) / std, abs=1e-5)


class Hostile:
    """Runs a command when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_hostile_pickle_is_refused(tmp_path: Path) -> None:
    """Before anything that it names is called."""
    target = tmp_path / "owned"
    cifar(tmp_path).write_bytes(pickle.dumps({b"data": Hostile(target)}))
    with pytest.raises(InvalidData, match=r"data_batch_1 wants \w+\.mkdir.*do not trust it"):
        load("cifar-10", tmp_path)
    assert not target.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a whole CIFAR file"),
        (b"hello", "not a whole CIFAR file"),
        (pickle.dumps({b"data": PHOTOS[:1], b"labels": [0]}, protocol=2)[:-40], "not a whole CIFAR file"),
        (pickle.dumps([1, 2]), "a list, not a dict"),
        (pickle.dumps({b"labels": [0]}), r"data of shape \(0,\)"),
        (pickle.dumps({b"data": PHOTOS[:1, :99], b"labels": [0]}, protocol=2), r"\(1, 99\).*\(n, 3072\)"),
        (pickle.dumps({b"data": PHOTOS[:2], b"labels": [0]}, protocol=2), r"\(2, 3072\) and labels of shape \(1,\)"),
        (pickle.dumps({b"data": PHOTOS[:1] / 255, b"labels": [0]}, protocol=2), "has float64 data"),
        (pickle.dumps({b"data": PHOTOS[:1], b"labels": ["cat"]}, protocol=2), "not numbers"),
        (pickle.dumps({b"data": PHOTOS[:1], b"labels": [-1]}, protocol=2), "labels -1; they must be 0 to 9"),
        (pickle.dumps({b"data": PHOTOS[:1], b"fine_labels": [0]}, protocol=2), "the labels under 'labels'"),
    ],
)
def test_a_broken_batch_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    cifar(tmp_path).write_bytes(content)
    with pytest.raises(InvalidData, match=rf"data_batch_1.*{message}"):
        load("cifar-10", tmp_path)


def test_missing_class_names_are_told(tmp_path: Path) -> None:
    cifar(tmp_path).with_name("batches.meta").write_bytes(pickle.dumps({b"label_names": [b"one"]}))
    with pytest.raises(InvalidData, match=r"batches\.meta has 1 names under 'label_names'; it must have 10"):
        load("cifar-10", tmp_path)


def test_cifar_100_has_fine_labels(tmp_path: Path) -> None:
    root = tmp_path / "cifar-100-python"
    root.mkdir()
    for name, n in (("train", 4), ("test", 2)):
        content = {b"data": PHOTOS[:n], b"fine_labels": [99, 7, 0, 50][:n], b"coarse_labels": [1, 2, 3, 4][:n]}
        (root / name).write_bytes(pickle.dumps(content, protocol=2))
    names = [f"fine {k}".encode() for k in range(100)]
    (root / "meta").write_bytes(pickle.dumps({b"fine_label_names": names, b"coarse_label_names": [b"x"] * 20}))
    split = load("cifar-100", tmp_path)
    x, y = split.train.tensors
    assert (x.shape, split.channels) == ((4, 3, 32, 32), 3)
    assert y.tolist() == [99, 7, 0, 50]
    assert split.test.tensors[1].tolist() == [99, 7]
    assert split.classes[99] == "fine 99"
    pixel = PHOTOS[1, 2 * 1024 + 32 * 3 + 30] / 255
    assert x[1, 2, 3, 30].item() == pytest.approx((pixel - 0.4409) / 0.2762, abs=1e-5)


CROPS = RNG.integers(0, 256, (32, 32, 3, 4), dtype=np.uint8)


def house_numbers(folder: Path, **train: Any) -> None:
    """A folder of small files in SVHN's form; `train` replaces variables of the training part."""
    content = {"X": CROPS, "y": np.array([[10], [1], [9], [5]], dtype=np.uint8)}
    savemat(folder / "test_32x32.mat", {"X": CROPS[..., :2], "y": np.array([[2], [10]])})
    savemat(folder / "train_32x32.mat", {**content, **train})


def test_svhn_is_read(tmp_path: Path) -> None:
    """Row, column, colour, sample; 10 stands for the digit 0."""
    house_numbers(tmp_path)
    split = load("svhn", tmp_path)
    x, y = split.train.tensors
    assert x.shape == (4, 3, 32, 32) and x.dtype == torch.float32 and x.is_contiguous()
    assert y.tolist() == [0, 1, 9, 5] and y.dtype == torch.int64
    assert split.test.tensors[1].tolist() == [2, 0]
    assert split.classes == tuple("0123456789")
    for channel, mean, std in ((0, 0.4377, 0.1980), (1, 0.4438, 0.2010), (2, 0.4728, 0.1970)):
        pixel = CROPS[7, 5, channel, 2] / 255
        assert x[2, channel, 7, 5].item() == pytest.approx((pixel - mean) / std, abs=1e-5)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"X": CROPS.transpose(3, 0, 1, 2)}, r"shape \(4, 32, 32, 3\)"),
        ({"X": CROPS / 255}, "X, float64"),
        ({"y": np.ones((3, 1))}, r"y of shape \(3, 1\)"),
        ({"y": np.ones((1, 4))}, r"y of shape \(1, 4\)"),
        ({"X": CROPS[..., :0], "y": np.ones((0, 1))}, r"\(32, 32, 3, 0\)"),
        ({"y": np.array([[11], [1], [2], [3]])}, "labels y beyond 1 to 10"),
        ({"y": np.array([[1.5], [1], [2], [3]])}, "labels y beyond 1 to 10"),
        ({"y": np.array([[np.nan], [1], [2], [3]])}, "labels y beyond 1 to 10"),
    ],
)
def test_svhn_of_a_wrong_shape_is_named(tmp_path: Path, variables: dict[str, Any], message: str) -> None:
    house_numbers(tmp_path, **variables)
    with pytest.raises(InvalidData, match=rf"train_32x32\.mat.*{message}"):
        load("svhn", tmp_path)


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "cut in the header", "no X", "hdf5"])
def test_a_damaged_matlab_file_is_named(tmp_path: Path, damage: str) -> None:
    house_numbers(tmp_path)
    path = tmp_path / "train_32x32.mat"
    whole = path.read_bytes()
    hdf5 = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\x89HDF" * 100
    content = {"empty": b"", "text": b"<html>moved</html>" * 20, "cut": whole[:5000], "cut in the header": whole[:60]}
    path.write_bytes({**content, "hdf5": hdf5}.get(damage, whole))
    if damage == "no X":
        savemat(path, {"y": np.ones((4, 1))})
    with pytest.raises(InvalidData, match=r"train_32x32\.mat.*fetch it again"):
        load("svhn", tmp_path)


def test_missing_files_are_named_with_what_to_do(tmp_path: Path) -> None:
    for name, file in (("cifar-10", "batches.meta"), ("cifar-100", "meta"), ("svhn", "train_32x32.mat")):
        with pytest.raises(InvalidData, match=rf"cannot read .*{file} \(No such file.*download\.fetch"):
            load(name, tmp_path)
