"""The data sets, read from the files their authors publish; scikit-learn's digits need no file.

Everything is held in memory as a `TensorDataset` of normalised float32 images (n, channels, height,
width) and int64 labels (n,).
"""

from __future__ import annotations

import gzip
import io
import pickle
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from unsc.errors import InvalidData, InvalidRequest


@dataclass(frozen=True)
class Split:
    """A data set's training and test part."""

    name: str
    train: TensorDataset
    test: TensorDataset
    classes: tuple[str, ...]
    """The classes' names, by label."""


def load(name: str, folder: Path | None = None) -> Split:
    """Read data set `name`; all but the embedded digits need the `folder` that holds their files."""
    if name not in _READERS:
        raise InvalidRequest(f"no data set {name!r}; there are {', '.join(_READERS)}")
    if name == "digits":
        return _digits()
    if folder is None:
        raise InvalidRequest(f"{name} is read from files: give the data folder (--data DIR)")
    return _READERS[name](Path(folder))


def _digits(folder: Path | None = None) -> Split:
    """1,797 handwritten digits of 8x8 pixels; a third of each class, drawn once, is the test part."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16  # type: ignore[attr-defined]
    labels = torch.tensor(digits.target, dtype=torch.int64)  # type: ignore[attr-defined]
    train, test = train_test_split(np.arange(len(labels)), test_size=1 / 3, stratify=labels.numpy(), random_state=0)
    images = (images - 0.305) / 0.376  # mean and standard deviation of the pixels
    return Split(
        "digits",
        TensorDataset(images[train], labels[train]),
        TensorDataset(images[test], labels[test]),
        tuple(str(k) for k in range(10)),
    )


def _fashion_mnist(folder: Path) -> Split:
    """70,000 pictures of clothes, 28x28, padded to the 32x32 that the paper's AlexNet takes."""
    raw = folder / "FashionMNIST" / "raw"

    def part(prefix: str) -> TensorDataset:
        images = _idx(raw / f"{prefix}-images-idx3-ubyte.gz")
        labels = _idx(raw / f"{prefix}-labels-idx1-ubyte.gz")
        if images.shape[1:] != (28, 28) or labels.shape != images.shape[:1]:
            raise InvalidData(
                f"{raw} has {prefix} images of shape {images.shape} and labels of shape {labels.shape}; they must be "
                "(n, 28, 28) and (n,): fetch them again"
            )
        x = torch.nn.functional.pad(torch.from_numpy(images)[:, None].float() / 255, (2, 2, 2, 2))
        return TensorDataset((x - 0.2860) / 0.3530, torch.from_numpy(labels).long())

    names = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
    return Split("fashion-mnist", part("train"), part("t10k"), names)


def _cifar10(folder: Path) -> Split:
    """60,000 colour photographs, 32x32, normalised by ImageNet's mean and standard deviation."""
    root = folder / "cifar-10-batches-py"
    mean = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
    std = torch.tensor([0.229, 0.224, 0.225])[:, None, None]

    def part(names: list[str]) -> TensorDataset:
        batches = [_plain_pickle(root / n) for n in names]
        for name, batch in zip(names, batches, strict=True):
            shape, labels = np.shape(batch.get("data", ())), np.shape(batch.get("labels", ()))
            if shape != (*labels, 3072) or len(labels) != 1:
                raise InvalidData(
                    f"{root / name} has data of shape {shape} and labels of shape {labels}; they must be (n, 3072) "
                    "and (n,): fetch it again"
                )
        pixels = np.concatenate([b["data"] for b in batches]).reshape(-1, 3, 32, 32)
        labels = np.concatenate([np.asarray(b["labels"]) for b in batches])
        return TensorDataset((_unit(pixels) - mean) / std, torch.from_numpy(labels).long())

    names = tuple(_plain_pickle(root / "batches.meta").get("label_names", ()))
    return Split("cifar-10", part([f"data_batch_{i}" for i in range(1, 6)]), part(["test_batch"]), names)


def _unit(pixels: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(pixels)).float() / 255


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        raise InvalidData(f"cannot read {path} ({e.strerror}); put the data set's original files there") from e


def _idx(path: Path) -> np.ndarray:
    """A gzipped IDX file of unsigned bytes, as MNIST and its kin are published."""
    try:
        raw = gzip.decompress(_read(path))
    except (OSError, EOFError, zlib.error) as e:
        raise InvalidData(f"{path} is not a whole gzip file ({e}); fetch it again") from e
    if len(raw) < 4 or raw[:3] != b"\0\0\x08":
        raise InvalidData(f"{path} is not an IDX file of unsigned bytes; fetch it again")
    ndim = raw[3]
    if len(raw) < 4 + 4 * ndim:
        raise InvalidData(f"{path} ends inside its header; fetch it again")
    shape = tuple(int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(ndim))
    body = np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * ndim)
    if body.size != int(np.prod(shape)):
        raise InvalidData(f"{path} says shape {shape} but holds {body.size} values; fetch it again")
    return body.reshape(shape).copy()


class _PlainUnpickler(pickle.Unpickler):
    """Reads arrays, lists, numbers and strings, and refuses any other callable a pickle might name."""

    _allowed = frozenset(
        (module, name)
        for module in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray")
        for name in ("ndarray", "dtype", "_reconstruct")
    ) | {("_codecs", "encode")}

    def find_class(self, module: str, name: str) -> object:
        if (module, name) in self._allowed:
            return super().find_class(module, name)
        raise InvalidData(f"this pickle wants {module}.{name}, which no CIFAR file needs; do not trust it")


def _plain_pickle(path: Path) -> dict:
    """A CIFAR batch; the keys of the original files are bytes, those of some copies are strings."""
    try:
        content = _PlainUnpickler(io.BytesIO(_read(path)), encoding="bytes").load()
        if not isinstance(content, dict):
            raise pickle.UnpicklingError(f"it holds a {type(content).__name__}, not a dict")
    except InvalidData:
        raise
    except Exception as e:  # a broken pickle can raise anything
        raise InvalidData(f"{path} is not a whole CIFAR batch ({e}); fetch it again") from e

    def text(v: object) -> object:
        return v.decode() if isinstance(v, bytes) else v

    return {text(k): [text(i) for i in v] if isinstance(v, list) else v for k, v in content.items()}


_READERS: dict[str, Callable[[Path], Split]] = {
    "digits": _digits,  # type: ignore[dict-item]
    "fashion-mnist": _fashion_mnist,
    "cifar-10": _cifar10,
}
