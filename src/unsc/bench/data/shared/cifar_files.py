"""The files of CIFAR-10 and CIFAR-100: pickles, in their "python version"."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unsc.bench.data.shared.pixels import checked_labels, unit
from unsc.bench.data.shared.plain_pickle import plain_pickle
from unsc.errors import InvalidData


def class_names(path: Path, key: str, count: int) -> tuple[str, ...]:
    """The `count` names under `key` in a file of names."""
    names = plain_pickle(path).get(key, ())
    if not isinstance(names, list) or len(names) != count:
        raise InvalidData(f"{path} has {len(names)} names under {key!r}; it must have {count}: fetch it again")
    return tuple(map(str, names))


def images_and_labels(paths: list[Path], key: str, num_classes: int) -> tuple[Tensor, Tensor]:
    """Images (n, 3, 32, 32) in [0, 1] and the labels (n,) under `key`, of all files one after another."""
    pixels, labels = zip(*(_batch(path, key, num_classes) for path in paths), strict=True)
    return unit(np.concatenate(pixels).reshape(-1, 3, 32, 32)), torch.cat(labels)


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
