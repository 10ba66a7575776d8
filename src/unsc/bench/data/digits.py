"""scikit-learn's digits, which come with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch.utils.data import TensorDataset

from unsc.bench.data.pixels import normalised
from unsc.bench.data.split import Split


def digits(folder: Path | None = None) -> Split:
    """1,797 handwritten digits of 8x8 pixels; a third of each class, drawn once, is the test part."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    found = load_digits()
    images = torch.tensor(found.images, dtype=torch.float32)[:, None] / 16  # type: ignore[attr-defined]
    labels = torch.tensor(found.target, dtype=torch.int64)  # type: ignore[attr-defined]
    train, test = train_test_split(np.arange(len(labels)), test_size=1 / 3, stratify=labels.numpy(), random_state=0)
    images = normalised("digits", images)
    return Split(
        "digits",
        TensorDataset(images[train], labels[train]),
        TensorDataset(images[test], labels[test]),
        tuple(str(k) for k in range(10)),
    )
