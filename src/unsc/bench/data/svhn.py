"""SVHN, cropped digits (Netzer et al., Reading digits in natural images, NIPS workshop 2011), from MATLAB files.

Checksums are not compared when the files are read, so that copies which were cropped or compressed again can be used;
results that were measured on such a copy must say so.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import TensorDataset

from unsc.bench.data.shared.image_data import DATA, ImageData
from unsc.bench.data.shared.pixels import checked_labels, missing, normalised, unit
from unsc.bench.data.shared.source import Published, Source
from unsc.bench.data.shared.split import Split
from unsc.bench.presets import cpu, long, paper
from unsc.errors import InvalidData
from unsc.extras import need

_MEAN, _STD = (0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)


def svhn(folder: Path) -> Split:
    """99,289 digits of house numbers, 32x32 in colour; the "extra" part is left aside."""
    train, test = (_part(folder / f"{part}_32x32.mat") for part in ("train", "test"))
    return Split("svhn", train, test, tuple("0123456789"))


def _part(path: Path) -> TensorDataset:
    """A file's `X`, uint8 (32, 32, 3, n), and `y`, (n, 1) with the digits 1 to 9 and 10 for the digit 0."""
    content = _matlab(path)
    pixels, labels = np.asarray(content.get("X", ())), np.asarray(content.get("y", ()))
    n = labels.size
    if pixels.dtype != np.uint8 or pixels.shape != (32, 32, 3, n) or labels.shape not in ((n, 1), (n,)) or n == 0:
        raise InvalidData(
            f"{path} has X, {pixels.dtype} of shape {pixels.shape}, and y of shape {labels.shape}; they must be uint8 "
            "(32, 32, 3, n) and (n, 1): fetch it again"
        )
    if not (np.issubdtype(labels.dtype, np.number) and np.isin(labels, np.arange(11)).all()):
        raise InvalidData(f"{path} has labels y beyond 1 to 10, where 10 is the digit 0: fetch it again")
    digits = checked_labels(labels.reshape(n).astype(np.int64) % 10, 10, path)
    return TensorDataset(normalised(unit(pixels.transpose(3, 2, 0, 1)), _MEAN, _STD), digits)


def _matlab(path: Path) -> dict[str, Any]:
    """The variables `X` and `y` of a MATLAB file."""
    loadmat = need("scipy.io", extra="data").loadmat
    try:
        with path.open("rb") as f, warnings.catch_warnings():
            warnings.simplefilter("error")  # SciPy only warns of some damage
            return loadmat(f, variable_names=["X", "y"])
    except OSError as e:
        if e.strerror is None:  # SciPy's own, not the system's
            raise InvalidData(f"{path} is not a whole MATLAB file ({e}); fetch it again") from e
        raise missing(path, e) from e
    except Exception as e:  # a damaged file can raise anything
        raise InvalidData(f"{path} is not a whole MATLAB file ({type(e).__name__}: {e}); fetch it again") from e


DATA.add(
    ImageData(
        "svhn",
        svhn,
        num_classes=10,
        source=Source(
            "http://ufldl.stanford.edu/housenumbers/",
            ".",
            (
                Published("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373", 182_040_794),
                Published("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3", 64_275_384),
            ),
        ),
        presets={
            "paper": paper("vgg11", augmentation="crop"),
            "cpu": cpu("vgg11", augmentation="crop", width=0.25, epochs=8),
            # Nothing is cropped, so that training samples are learned by heart and membership can be told.
            "long": long("vgg11", width=0.25, epochs=10),
        },
        forget=(3, 5, 8, 1, 6),
        paper_step={"lr": 0.03, "max_passes": 15},
    )
)
