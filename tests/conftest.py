"""What several tests share: points and digits, a small network for each of them, and the registry of methods."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from blobs import blobs, learned, network
from torch import nn
from torch.utils.data import Dataset, Subset, TensorDataset

from unsc.batches import Batch, as_batch
from unsc.bench.datasets import Split, load
from unsc.bench.networks import digits_cnn
from unsc.bench.train import fit
from unsc.datasets import read, size_of
from unsc.evaluation.shared.case import Case, Part
from unsc.methods import Problem
from unsc.methods.shared.registry import temporary_methods
from unsc.request import Request

# Training with another number of threads ends with other weights, and some tests measure what becomes of them.
torch.set_num_threads(1)


@pytest.fixture
def registered() -> Iterator[None]:
    """What a test registers is gone after it."""
    with temporary_methods():
        yield


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


@pytest.fixture(scope="session")
def points() -> TensorDataset:
    """Forty points around each of six corners."""
    return blobs(classes=6)


@pytest.fixture(scope="session")
def model(points: TensorDataset) -> nn.Module:
    """A perceptron that knows them. Tests must not change it."""
    with torch.random.fork_rng(devices=[]):
        return learned(network(6), points)


def train_digits(dataset: Dataset, seed: int) -> nn.Module:
    """How `digits_model` was trained, as a recipe."""
    batch = read(dataset, range(size_of(dataset)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = digits_cnn()
    return fit(model, batch.inputs, batch.labels, epochs=8, seed=seed)


@pytest.fixture(scope="session")
def digits_problem(digits: Split, digits_model: nn.Module) -> Problem:
    """Class 3 of the digits is to be forgotten."""
    gone = digits.train.tensors[1] == 3
    forget, retain = (Subset(digits.train, part.nonzero().flatten().tolist()) for part in (gone, ~gone))
    return Problem(digits_model, Request.for_classes([3], 10), forget=forget, retain=retain, recipe=train_digits)


@pytest.fixture(scope="session")
def digits_retrained(digits_problem: Problem) -> nn.Module:
    """The same CNN trained without class 3. Tests must not change it."""
    return train_digits(digits_problem.retain, 1)


@pytest.fixture(scope="session")
def digits_twin(digits_problem: Problem) -> nn.Module:
    """Another one, of another seed."""
    return train_digits(digits_problem.retain, 2)


@pytest.fixture(scope="session")
def digits_parts(digits: Split) -> dict[Part, Batch]:
    """Train and test, each without and with class 3 alone."""
    parts: dict[Part, Batch] = {}
    for name, dataset in (("train", digits.train), ("test", digits.test)):
        batch = as_batch(dataset[:])
        parts[f"forget_{name}"] = batch[batch.labels == 3]  # type: ignore[index]
        parts[f"retain_{name}"] = batch[batch.labels != 3]  # type: ignore[index]
    return parts


@pytest.fixture
def digits_case(
    digits_model: nn.Module, digits_parts: dict, digits_retrained: nn.Module, digits_twin: nn.Module
) -> Case:
    """The original, judged as if it had forgotten class 3: it has not."""
    return Case(
        digits_model,
        Request.for_classes([3], 10),
        digits_parts,
        original=digits_model,
        retrained=digits_retrained,
        twin=digits_twin,
    )
