"""What several tests share: the digits, and a small network that was trained on them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from unsc.bench.datasets import Split, load
from unsc.bench.networks import digits_cnn
from unsc.bench.train import fit


@pytest.fixture(scope="session")
def digits() -> Split:
    return load("digits")


@pytest.fixture(scope="session")
def digits_model(digits: Split) -> nn.Module:
    """A CNN with about 98 % test accuracy, in evaluation mode. Tests must not change it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = digits_cnn()
    images, labels = digits.train.tensors
    return fit(model, images, labels, epochs=8)
