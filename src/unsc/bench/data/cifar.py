"""CIFAR-10 and CIFAR-100 (Krizhevsky, 2009), from the pickles of their "python version"."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from unsc.bench.data.pixels import checked_labels, normalised, unit
from unsc.bench.data.plain_pickle import plain_pickle
from unsc.bench.data.split import Split
from unsc.errors import InvalidData


def cifar10(folder: Path) -> Split:
    """60,000 colour photographs, 32x32, of 10 classes."""
    root = folder / "cifar-10-batches-py"
    names = _names(root / "batches.meta", "label_names", 10)
    train = _part("cifar-10", [root / f"data_batch_{i}" for i in range(1, 6)], "labels", names)
    return Split("cifar-10", train, _part("cifar-10", [root / "test_batch"], "labels", names), names)


def cifar100(folder: Path) -> Split:
    """60,000 colour photographs, 32x32, of 100 fine classes; the 20 coarse ones are left aside."""
    root = folder / "cifar-100-python"
    names = _names(root / "meta", "fine_label_names", 100)
    train = _part("cifar-100", [root / "train"], "fine_labels", names)
    return Split("cifar-100", train, _part("cifar-100", [root / "test"], "fine_labels", names), names)


def _names(path: Path, key: str, count: int) -> tuple[str, ...]:
    names = plain_pickle(path).get(key, ())
    if not isinstance(names, list) or len(names) != count:
        raise InvalidData(f"{path} has {len(names)} names under {key!r}; it must have {count}: fetch it again")
    return tuple(map(str, names))


def _part(name: str, paths: list[Path], key: str, names: tuple[str, ...]) -> TensorDataset:
    """The images and the labels under `key` of all files, one after another."""
    pixels, labels = zip(*(_batch(path, key, len(names)) for path in paths), strict=True)
    images = np.concatenate(pixels).reshape(-1, 3, 32, 32)
    return TensorDataset(normalised(name, unit(images)), torch.cat(labels))


def _batch(path: Path, key: str, num_classes: int) -> tuple[np.ndarray, Tensor]:
    """One file's pixels, uint8 (n, 3072): red, green and blue planes row by row; and its labels (n,)."""
    batch = plain_pickle(path)
    try:
        data, labels = np.asarray(batch.get("data", ())), np.asarray(batch.get(key, ()), dtype=np.int64)
    except (TypeError, ValueError, OverflowError) as e:
        raise InvalidData(f"{path} has {key} that are not numbers ({e}); fetch it again") from e
    if data.shape != (*labels.shape, 3072) or labels.ndim != 1 or data.dtype != np.uint8 or labels.size == 0:
        raise InvalidData(
            f"{path} has {data.dtype} data of shape {data.shape} and labels of shape {labels.shape}; they must be "
            f"uint8 (n, 3072) and (n,), the labels under {key!r}: fetch it again"
        )
    return data, checked_labels(labels, num_classes, path)
