"""Where the data sets are published: addresses and MD5 sums as torchvision lists them, and the files' sizes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A file on a server."""

    name: str
    md5: str
    size: int
    """In bytes; for the progress bar alone."""
    members: tuple[str, ...] = ()
    """Of an archive: what is taken out of it, all in one folder; nothing else is."""


@dataclass(frozen=True)
class Source:
    """Where a data set is published."""

    base_url: str
    folder: str
    """Where its files end, under the data folder."""
    files: tuple[Published, ...]


_CIFAR_10 = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta")

SOURCES: dict[str, Source] = {
    "fashion-mnist": Source(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "FashionMNIST/raw",
        (
            Published("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
            Published("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe", 29_515),
            Published("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79", 4_422_102),
            Published("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310", 5_148),
        ),
    ),
    "cifar-10": Source(
        "https://www.cs.toronto.edu/~kriz/",
        "cifar-10-batches-py",
        (Published("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", 170_498_071, _CIFAR_10),),
    ),
    "cifar-100": Source(
        "https://www.cs.toronto.edu/~kriz/",
        "cifar-100-python",
        (
            Published(
                "cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85", 169_001_437, ("train", "test", "meta")
            ),
        ),
    ),
    "svhn": Source(
        "http://ufldl.stanford.edu/housenumbers/",
        ".",
        (
            Published("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373", 182_040_794),
            Published("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3", 64_275_384),
        ),
    ),
}
