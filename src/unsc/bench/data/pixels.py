"""From bytes on disk to normalised images and checked labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unsc.errors import InvalidData, listing

NORMALISATION: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "digits": ((0.305,), (0.376,)),
    "fashion-mnist": ((0.2860,), (0.3530,)),
    # ImageNet's, not CIFAR-10's own: public CIFAR-10 networks were trained with them.
    "cifar-10": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "cifar-100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "svhn": ((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)),
}
"""Mean and standard deviation of the training pixels in [0, 1], for each channel."""


def normalised(name: str, images: Tensor) -> Tensor:
    """Float images (n, channels, height, width) in [0, 1], less their data set's mean, over its deviation; in place."""
    mean, std = (torch.tensor(values)[:, None, None] for values in NORMALISATION[name])
    return images.sub_(mean).div_(std)


def unit(pixels: np.ndarray) -> Tensor:
    """Bytes 0 to 255 as new float32 numbers in [0, 1]."""
    return torch.from_numpy(np.ascontiguousarray(pixels)).float().div_(255)


def checked_labels(labels: np.ndarray, num_classes: int, path: Path) -> Tensor:
    """Labels (n,) as int64, each in 0 to `num_classes` - 1."""
    strange = np.unique(labels[(labels < 0) | (labels >= num_classes)])
    if strange.size:
        raise InvalidData(f"{path} has labels {listing(strange)}; they must be 0 to {num_classes - 1}: fetch it again")
    return torch.from_numpy(labels.astype(np.int64))


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        raise missing(path, e) from e


def missing(path: Path, error: OSError) -> InvalidData:
    """The error for a file that cannot be opened."""
    return InvalidData(
        f"cannot read {path} ({error.strerror}); put the data set's original files there, "
        "or let unsc.bench.download.fetch do so"
    )
