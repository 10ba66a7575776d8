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
    with pytest.raises(InvalidRequest, match=r"'mnist'; there are digits, fashion-mnist, cifar-10"):
        load("mnist")
    for name in ("fashion-mnist", "cifar-10"):
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
    ],
)
def test_a_broken_idx_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    fashion(tmp_path).write_bytes(content)
    with pytest.raises(InvalidData, match=rf"FashionMNIST.*{message}"):
        load("fashion-mnist", tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    fashion(tmp_path).unlink()
    with pytest.raises(InvalidData, match=r"cannot read .*train-images-idx3-ubyte\.gz \(No such file"):
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
    with pytest.raises(InvalidData, match=r"wants \w+\.mkdir.*do not trust it"):
        load("cifar-10", tmp_path)
    assert not target.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a whole CIFAR batch"),
        (b"hello", "not a whole CIFAR batch"),
        (pickle.dumps({b"data": PHOTOS[:1], b"labels": [0]}, protocol=2)[:-40], "not a whole CIFAR batch"),
        (pickle.dumps([1, 2]), "a list, not a dict"),
        (pickle.dumps({b"labels": [0]}), r"data of shape \(0,\)"),
        (pickle.dumps({b"data": PHOTOS[:1, :99], b"labels": [0]}, protocol=2), r"\(1, 99\).*\(n, 3072\)"),
        (pickle.dumps({b"data": PHOTOS[:2], b"labels": [0]}, protocol=2), r"\(2, 3072\) and labels of shape \(1,\)"),
    ],
)
def test_a_broken_batch_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    cifar(tmp_path).write_bytes(content)
    with pytest.raises(InvalidData, match=rf"data_batch_1.*{message}"):
        load("cifar-10", tmp_path)
