"""From bytes on disk to normalised images and checked labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unsc.errors import InvalidData, listing

Channels = tuple[float, ...]


def normalised(images: Tensor, mean: Channels, std: Channels) -> Tensor:
    """Float images (n, channels, height, width) in [0, 1], less each channel's `mean`, over its `std`; in place."""
    return images.sub_(torch.tensor(mean)[:, None, None]).div_(torch.tensor(std)[:, None, None])


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
