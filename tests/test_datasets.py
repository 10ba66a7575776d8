"""Samples and labels out of map-style data sets and loaders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from unsc.datasets import by_class, read, read_batches, read_labels
from unsc.errors import InvalidData


class Listed(Dataset):
    """A plain map-style data set of ready-made samples."""

    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def numbered(labels: list[int]) -> tuple[Tensor, Tensor]:
    """Samples whose input is their own position."""
    return torch.arange(len(labels), dtype=torch.float32)[:, None], torch.tensor(labels)


X, Y = torch.randn(4, 3), torch.tensor([2, 0, 1, 0])


@pytest.mark.parametrize(
    "dataset",
    [
        TensorDataset(X, Y),
        Listed([(x, int(y)) for x, y in zip(X, Y, strict=True)]),
        Listed([{"x": x, "label": y} for x, y in zip(X, Y, strict=True)]),
        Subset(TensorDataset(torch.cat([X, X]), torch.cat([Y + 1, Y])), [4, 5, 6, 7]),
        Subset(Subset(Listed([(x, y) for x, y in zip(X.flip(0), Y.flip(0), strict=True)]), [3, 2, 1, 0]), range(4)),
    ],
    ids=["tensors", "pairs", "dicts", "subset", "nested subset"],
)
def test_every_kind_of_data_set_reads_alike(dataset: Dataset) -> None:
    """Labels and samples do not depend on how the data set stores them."""
    labels = read_labels(dataset)
    assert torch.equal(labels, Y)
    assert labels.dtype == torch.int64
    batch = read(dataset, [3, 0])
    inputs = batch.inputs["x"] if isinstance(batch.inputs, dict) else batch.inputs
    assert torch.equal(inputs, X[[3, 0]])
    assert torch.equal(batch.labels, Y[[3, 0]])


def test_labels_under_another_key_are_read() -> None:
    """A named label key is used for labels, subsets and samples."""
    dataset = Subset(Listed([{"x": x, "kind": y} for x, y in zip(X, Y, strict=True)]), [1, 2])
    assert torch.equal(read_labels(dataset, label_key="kind"), Y[1:3])
    assert torch.equal(read(dataset, [1], label_key="kind").labels, Y[2:3])


@pytest.mark.parametrize("dataset", [Listed([]), TensorDataset(X[:0], Y[:0]), Subset(TensorDataset(X, Y), [])])
def test_an_empty_data_set_is_refused(dataset: Dataset) -> None:
    """There is nothing to learn labels from."""
    with pytest.raises(InvalidData, match="empty"):
        read_labels(dataset)


def test_float_labels_of_a_tensor_data_set_are_refused() -> None:
    """A regression data set is no classification data set."""
    with pytest.raises(InvalidData, match="float32"):
        read_labels(TensorDataset(X, Y.float()))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 30), max_size=20, unique=True), st.integers(1, 7), st.none() | st.integers(0, 5))
def test_batches_visit_each_index_once(chosen: list[int], size: int, seed: int | None) -> None:
    """Batches partition the indices, are full but for the last, and are the same again for the same seed."""
    dataset = TensorDataset(*numbered(list(range(31))))
    indices = torch.tensor(chosen, dtype=torch.int64)
    visited = [batch.labels.tolist() for batch in read_batches(dataset, indices, size=size, seed=seed)]
    again = [batch.labels.tolist() for batch in read_batches(dataset, indices, size=size, seed=seed)]
    flat = [label for batch in visited for label in batch]
    assert visited == again
    assert sorted(flat) == sorted(chosen)
    assert all(len(batch) == size for batch in visited[:-1])
    assert all(1 <= len(batch) <= size for batch in visited)
    if seed is None:
        assert flat == chosen


def test_a_seed_shuffles_without_touching_the_global_generator() -> None:
    """Different seeds give different orders, and random numbers drawn elsewhere stay the same."""
    dataset, indices = TensorDataset(*numbered(list(range(50)))), torch.arange(50)
    state = torch.get_rng_state()
    orders = [next(read_batches(dataset, indices, size=50, seed=seed)).labels for seed in (0, 1)]
    assert not torch.equal(*orders)
    assert not torch.equal(orders[0], indices)
    assert torch.equal(torch.get_rng_state(), state)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 12), st.integers(1, 6), st.integers(1, 9))
def test_by_class_takes_the_first_samples_of_each_class(labels: list[int], limit: int, size: int, step: int) -> None:
    """Each batch has a single class, and each class is represented by its first `limit` samples, in order."""
    loader = DataLoader(TensorDataset(*numbered(labels)), batch_size=step) if labels else []
    seen: dict[int, list[int]] = {}
    for batch in by_class(loader, limit=limit, size=size):
        (label,) = batch.labels.unique().tolist()
        seen.setdefault(label, []).extend(batch.inputs.flatten().int().tolist())
        assert len(batch) < size + step
    positions = {k: [i for i, y in enumerate(labels) if y == k][:limit] for k in Counter(labels)}
    assert seen == positions


def test_by_class_keeps_dicts_and_several_inputs_together() -> None:
    """Regrouping works for every form of inputs."""
    x, y = numbered([0, 1, 0, 1])
    for collated in ((x, x + 10, y), {"a": x, "b": x + 10, "label": y}):
        for batch in by_class([collated], limit=5):
            first, second = batch.inputs.values() if isinstance(batch.inputs, dict) else batch.inputs
            assert torch.equal(first + 10, second)
            assert torch.equal(first.flatten().long() % 2, batch.labels)


class Folder(Dataset[tuple[torch.Tensor, int]]):
    """Images that are expensive to decode, with their labels beside them, as an image folder has them."""

    def __init__(self, targets: object, shift: int = 0) -> None:
        self.targets, self.shift, self.decoded = targets, shift, 0

    def __len__(self) -> int:
        return 60

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        self.decoded += 1
        return torch.zeros(3), (i + self.shift) % 5


@pytest.mark.parametrize("kind", [list, torch.tensor, np.array])
def test_labels_that_a_data_set_offers_are_taken_without_decoding_it(kind: Callable[[list[int]], object]) -> None:
    folder = Folder(kind([i % 5 for i in range(60)]))
    assert torch.equal(read_labels(folder), torch.arange(60) % 5)
    assert folder.decoded <= 8


@pytest.mark.parametrize("targets", [[i % 5 for i in range(60)], [0.5] * 60, ["cat"] * 60, [0] * 59, 3])
def test_labels_that_samples_do_not_have_are_not_taken(targets: object) -> None:
    """A transform of the labels, something else by that name: the samples decide."""
    folder = Folder(targets, shift=2)
    assert torch.equal(read_labels(folder), (torch.arange(60) + 2) % 5)
    assert folder.decoded >= 60


class Columns:
    """A data set of dicts with columns, as Hugging Face's are."""

    column_names = ["pixels", "label"]  # noqa: RUF012

    def __len__(self) -> int:
        return 60

    def __getitem__(self, key: int | str) -> object:
        if isinstance(key, str):
            return [i % 5 for i in range(60)]
        assert key in {int(i) for i in torch.linspace(0, 59, 8)}, "decoded a sample it need not have"
        return {"pixels": torch.zeros(3), "label": key % 5}


def test_a_column_of_labels_is_taken() -> None:
    assert torch.equal(read_labels(Columns()), torch.arange(60) % 5)  # type: ignore[arg-type]
