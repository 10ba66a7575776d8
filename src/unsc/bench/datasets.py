"""The data sets by name, read from the files their authors publish; scikit-learn's digits need no file.

Everything is held in memory as a `TensorDataset` of normalised float32 images (n, channels, height, width) and
int64 labels (n,). The files lie as torchvision lays them out: `FashionMNIST/raw/*.gz`, `cifar-10-batches-py/`,
`cifar-100-python/` and `{train,test}_32x32.mat`. `unsc.bench.download.fetch` puts them there. Files that are there
already are read as they are, whatever their checksum.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from unsc.bench.data.cifar import cifar10, cifar100
from unsc.bench.data.digits import digits
from unsc.bench.data.fashion_mnist import fashion_mnist
from unsc.bench.data.split import Split
from unsc.bench.data.svhn import svhn
from unsc.errors import InvalidRequest, unknown

__all__ = ["READERS", "Split", "load"]

READERS: dict[str, Callable[[Path], Split]] = {
    "digits": digits,
    "fashion-mnist": fashion_mnist,
    "cifar-10": cifar10,
    "cifar-100": cifar100,
    "svhn": svhn,
}


def load(name: str, folder: Path | None = None) -> Split:
    """Read data set `name`; all but the embedded digits need the `folder` that holds their files."""
    if name not in READERS:
        raise unknown("data set", name, READERS)
    if name == "digits":
        return digits()
    if folder is None:
        raise InvalidRequest(f"{name} is read from files: give the data folder (--data DIR)")
    return READERS[name](Path(folder))
