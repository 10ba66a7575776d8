"""A data set in one file. Put such a file into `src/unsc/bench/data/`, and it is found there by itself.

Then `load("stripes")` reads it, `unsc compare --data stripes` compares methods on it, and
`unsc bench table1 --data stripes` carries out the paper's experiment on it. No other file has to know its name.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch.utils.data import TensorDataset

from unsc.bench.data.shared.image_data import DATA, ImageData
from unsc.bench.data.shared.pixels import normalised
from unsc.bench.data.shared.split import Split
from unsc.bench.presets import cpu

CLASSES = ("horizontal", "vertical", "falling", "rising")
"""The directions of the stripes."""


def stripes(folder: Path) -> Split:
    """Noisy stripes of 8x8 pixels. They are drawn, not read: a data set with files would look for them in `folder`."""
    return Split("stripes", _part(100, seed=0), _part(50, seed=1), CLASSES)


def _part(each: int, *, seed: int) -> TensorDataset:
    """`each` images of every class, float32 (n, 1, 8, 8), and labels (n,)."""
    generator = torch.Generator().manual_seed(seed)
    row, column = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    across = torch.stack([row, column, row - column, row + column])  # what grows at right angles to the stripes
    labels = torch.arange(len(CLASSES)).repeat(each)
    shift = 4 * torch.rand(len(labels), 1, 1, generator=generator)
    images = ((across[labels] + shift) % 4 < 2).float()
    images = (images + 0.1 * torch.randn(images.shape, generator=generator)).clamp(0, 1)
    return TensorDataset(normalised(images[:, None], mean=(0.5,), std=(0.5,)), labels)


DATA.add(
    ImageData(
        "stripes",
        stripes,
        num_classes=len(CLASSES),
        # source=Source(...) says where files are published, so that `unsc bench fetch` can download them.
        presets={"cpu": cpu("digits-cnn", epochs=6, width=0.5)},
        forget=(2, 0),
    )
)
