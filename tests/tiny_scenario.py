"""A comparison's data in a fraction of a second: Gaussian classes in 4 dimensions and a small perceptron."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from unsc.compare.scenarios import Scenario
from unsc.datasets import read, size_of

CLASSES, FEATURES = 4, 4


def points(each: int, seed: int) -> TensorDataset:
    """`each` samples of every class, around 4 times a unit vector."""
    labels = torch.arange(CLASSES).repeat(each)
    noise = torch.randn(len(labels), FEATURES, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(4 * torch.eye(FEATURES)[labels] + noise, labels)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, CLASSES))


def recipe(dataset: Dataset, seed: int) -> nn.Module:
    """Forty steps on the whole data set."""
    batch = read(dataset, range(size_of(dataset)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(40):
        loss = F.cross_entropy(model(batch.inputs), batch.labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def make() -> Scenario:
    return Scenario("tiny", points(30, 0), points(20, 1), points(25, 2), CLASSES, network, recipe)
