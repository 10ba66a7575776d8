"""scikit-learn's digits, which come with it: 1,797 handwritten digits of 8x8 pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset, Subset, TensorDataset

from unsc.bench.data.shared.image_data import DATA, ImageData
from unsc.bench.data.shared.pixels import normalised
from unsc.bench.data.shared.split import Split
from unsc.bench.networks import digits_cnn
from unsc.bench.train import fit
from unsc.compare.scenarios import Scenario
from unsc.datasets import read, size_of
from unsc.extras import need


def digits(folder: Path = Path()) -> Split:
    """A third of each class, drawn once, is the test part. There are no files: the folder is ignored."""
    found = need("sklearn.datasets", extra="data").load_digits()
    images = normalised(torch.tensor(found.images, dtype=torch.float32)[:, None] / 16, (0.305,), (0.376,))
    labels = torch.tensor(found.target, dtype=torch.int64)
    train, test = _stratified(labels, 1 / 3)
    return Split(
        "digits",
        TensorDataset(images[train], labels[train]),
        TensorDataset(images[test], labels[test]),
        tuple("0123456789"),
    )


def scenario() -> Scenario:
    """958 digits to train on, 240 for validation, 599 for the test; a CNN of 40,000 weights."""
    split = digits()
    train, validation = _stratified(split.train.tensors[1], 0.2)

    def recipe(dataset: Dataset, seed: int) -> nn.Module:
        batch = read(dataset, range(size_of(dataset)))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = digits_cnn()
        return fit(model, batch.inputs, batch.labels, epochs=20, lr=0.05, batch_size=64, seed=seed)

    parts = Subset(split.train, train.tolist()), Subset(split.train, validation.tolist())
    return Scenario("digits", *parts, split.test, len(split.classes), digits_cnn, recipe)


def _stratified(labels: torch.Tensor, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of positions that do not overlap, the second with this `share` of each class."""
    halve = need("sklearn.model_selection", extra="data").train_test_split
    return halve(np.arange(len(labels)), test_size=share, stratify=labels.numpy(), random_state=0)


DATA.add(ImageData("digits", digits, num_classes=10, own_scenario=scenario))
