"""The data sets by name, read from the files their authors publish; scikit-learn's digits need no file.

Everything is held in memory as a `TensorDataset` of normalised float32 images (n, channels, height, width) and
int64 labels (n,). The files lie as torchvision lays them out: `FashionMNIST/raw/*.gz`, `cifar-10-batches-py/`,
`cifar-100-python/` and `{train,test}_32x32.mat`. `unsc.bench.download.fetch` puts them there. Files that are there
already are read as they are, whatever their checksum.
"""

from __future__ import annotations

import os
from pathlib import Path

from unsc.bench.data.shared.image_data import DATA
from unsc.bench.data.shared.split import Split
from unsc.errors import InvalidRequest

__all__ = ["Split", "data_folder", "load"]


def load(name: str, folder: Path | None = None) -> Split:
    """Read data set `name` from the `folder` that holds its files, if it has files."""
    return DATA.find(name).load(folder)


def data_folder(name: str) -> Path:
    """The folder that UNSC_DATA names, which holds the files of data set `name`."""
    if DATA.find(name).source is None:
        return Path()
    named = os.environ.get("UNSC_DATA")
    if not named:
        raise InvalidRequest(f"{name} is read from files; say where with --folder, or set UNSC_DATA to that folder")
    return Path(named)
