"""FashionMNIST (Xiao et al., 2017): 70,000 pictures of clothes, 28x28, from gzipped IDX files."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import TensorDataset

from unsc.bench.data.shared.image_data import DATA, ImageData
from unsc.bench.data.shared.pixels import checked_labels, normalised, read_bytes, unit
from unsc.bench.data.shared.source import Published, Source
from unsc.bench.data.shared.split import Split
from unsc.bench.presets import cpu, long, paper, recipe
from unsc.errors import InvalidData

_FOLDER = "FashionMNIST/raw"
_CLASSES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")


def fashion_mnist(folder: Path) -> Split:
    """Images padded to the 32x32 that the paper's AlexNet takes."""
    raw = folder / _FOLDER
    return Split("fashion-mnist", _part(raw, "train"), _part(raw, "t10k"), _CLASSES)


def _part(raw: Path, prefix: str) -> TensorDataset:
    images = _idx(raw / f"{prefix}-images-idx3-ubyte.gz")
    labels = _idx(raw / f"{prefix}-labels-idx1-ubyte.gz")
    if images.shape[1:] != (28, 28) or labels.shape != images.shape[:1] or labels.size == 0:
        raise InvalidData(
            f"{raw} has {prefix} images of shape {images.shape} and labels of shape {labels.shape}; they must be "
            "(n, 28, 28) and (n,): fetch them again"
        )
    x = torch.nn.functional.pad(unit(images)[:, None], (2, 2, 2, 2))
    y = checked_labels(labels, len(_CLASSES), raw / f"{prefix}-labels-idx1-ubyte.gz")
    return TensorDataset(normalised(x, (0.2860,), (0.3530,)), y)


def _idx(path: Path) -> np.ndarray:
    """A gzipped IDX file of unsigned bytes, as MNIST and its kin are published."""
    packed = read_bytes(path)
    try:
        raw = gzip.decompress(packed)
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


DATA.add(
    ImageData(
        "fashion-mnist",
        fashion_mnist,
        num_classes=len(_CLASSES),
        source=Source(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            _FOLDER,
            (
                Published("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
                Published("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe", 29_515),
                Published("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79", 4_422_102),
                Published("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310", 5_148),
            ),
        ),
        presets={
            "paper": paper("alexnet", dropout=0.5),
            "cpu": cpu("alexnet", epochs=4, dropout=0.2),  # few epochs leave little to regularise
            "long": long("alexnet", epochs=8),
            "recipe": recipe("alexnet", epochs=20, dropout=0.5),
        },
        forget=(6, 2, 4, 0, 3),
        paper_step={"lr": 5e-4, "max_passes": 15},
    )
)
