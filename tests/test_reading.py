"""Data in every accepted form becomes the same batches, and everything else is refused with a reason."""

from __future__ import annotations

from collections import Counter, UserDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from unsc.batches import Batch, as_batch, join
from unsc.datasets import by_class, read, read_batches, read_labels
from unsc.errors import InvalidData, UnsupportedModel
from unsc.logits import check_logits, logits_of


class Listed(Dataset):
    """A plain map-style data set of ready-made samples."""

    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]


class Returning(nn.Module):
    """A model that returns what it was given to return, and keeps what it was called with."""

    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output
        self.called: tuple[tuple, dict] = ((), {})

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.called = (args, kwargs)
        return self.output


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def numbered(labels: list[int]) -> tuple[Tensor, Tensor]:
    """Samples whose input is their own position."""
    return torch.arange(len(labels), dtype=torch.float32)[:, None], torch.tensor(labels)


def tensors_of(inputs: Any) -> list[Tensor]:
    if isinstance(inputs, Tensor):
        return [inputs]
    return list(inputs.values()) if isinstance(inputs, dict) else list(inputs)


X, Y = torch.randn(4, 3), torch.tensor([2, 0, 1, 0])


@pytest.mark.parametrize("labels", [Y, Y.int(), Y.to(torch.uint8), Y.tolist()])
def test_a_pair_is_inputs_and_labels(labels: Any) -> None:
    """Labels of any integer type become int64; a batch passes through unchanged."""
    batch = as_batch((X, labels))
    assert torch.equal(batch.inputs, X)
    assert torch.equal(batch.labels, Y)
    assert batch.labels.dtype == torch.int64
    assert as_batch(batch) is batch


def test_several_inputs_come_before_the_label() -> None:
    """The last part is the label, all others are inputs by position."""
    other = torch.randn(4, 2)
    batch = as_batch([X, other, Y])
    assert isinstance(batch.inputs, tuple)
    assert all(torch.equal(a, b) for a, b in zip(batch.inputs, (X, other), strict=True))
    assert torch.equal(batch.labels, Y)


@pytest.mark.parametrize("key", ["labels", "label", "y", "target"])
@pytest.mark.parametrize("mapping", [dict, UserDict])
def test_a_dict_has_a_known_label_key(key: str, mapping: type) -> None:
    """Usual label keys are found in any mapping, and all other keys are inputs."""
    batch = as_batch(mapping({"pixels": X, key: Y}))
    assert batch.inputs.keys() == {"pixels"}
    assert torch.equal(batch.labels, Y)


def test_a_label_key_can_be_named() -> None:
    """A named key wins over the usual ones, which then are inputs."""
    batch = as_batch({"x": X, "labels": X, "kind": Y}, label_key="kind")
    assert batch.inputs.keys() == {"x", "labels"}
    assert torch.equal(batch.labels, Y)


@pytest.mark.parametrize(
    ("collated", "label_key", "named"),
    [
        ({"pixels": X, "kind": Y}, None, ["pixels", "kind", "label_key"]),
        ({"pixels": X, "label": Y}, "kind", ["pixels", "label", "kind"]),
        (X, None, ["Tensor"]),
        ((X,), None, ["tuple"]),
        ("abc", None, ["str"]),
        ((X, Y.float()), None, ["float32", "integer"]),
        ((X, Y.bool()), None, ["bool"]),
        ((X, Y.to(torch.complex64)), None, ["complex64"]),
        ((X, Y[:, None]), None, ["(4, 1)"]),
        ((X, torch.tensor(1)), None, ["DataLoader"]),
        ((X.clone().index_fill(1, torch.tensor(1), float("nan")), Y), None, ["NaN"]),
        (((X, X / 0.0, Y)), None, ["Inf"]),
        ({"x": X * float("inf"), "y": Y}, None, ["Inf"]),
    ],
)
def test_unusable_data_is_refused_with_its_reason(collated: Any, label_key: str | None, named: list[str]) -> None:
    """The message names what was found and what to give instead."""
    with pytest.raises(InvalidData) as caught:
        as_batch(collated, label_key=label_key)
    assert all(word in str(caught.value) for word in named)


def test_token_numbers_are_inputs() -> None:
    """Token numbers are accepted as inputs as they are."""
    tokens = torch.randint(9, (4, 5))
    assert torch.equal(as_batch((tokens, Y)).inputs, tokens)


@pytest.mark.parametrize("inputs", [X, (X, X + 1), {"a": X, "b": X + 1}], ids=["tensor", "tuple", "dict"])
def test_joining_the_parts_of_a_batch_gives_it_back(inputs: Any) -> None:
    """Selecting by mask or by positions keeps inputs and labels together; joining inverts the selection."""
    batch = Batch(inputs, Y)
    joined = join([batch[torch.tensor([0, 1])], batch[torch.tensor([False, False, True, True])]])
    assert len(joined) == 4
    assert torch.equal(joined.labels, Y)
    for ours, theirs in zip(tensors_of(joined.inputs), tensors_of(inputs), strict=True):
        assert torch.equal(ours, theirs)


def test_a_batch_takes_the_models_precision() -> None:
    """Floating point inputs follow the model; token numbers keep their type."""
    model = nn.Linear(3, 2).double()
    batch = Batch({"x": X, "tokens": Y}, Y).for_model(model)
    assert batch.inputs["x"].dtype == torch.float64
    assert batch.inputs["tokens"].dtype == torch.int64


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


@pytest.mark.parametrize("wrap", [lambda t: t, lambda t: {"logits": t}, lambda t: SimpleNamespace(logits=t)])
def test_logits_come_plain_or_inside_an_object(wrap: Any) -> None:
    """A tensor, a dict with logits and an object with logits are the same scores."""
    scores = torch.randn(4, 3)
    assert logits_of(Returning(wrap(scores)), Batch(X, Y)) is scores


def test_inputs_are_passed_as_their_form_says() -> None:
    """A tensor is the only argument, a tuple is passed by position, a dict by name."""
    model = Returning(torch.randn(4, 3))
    logits_of(model, Batch(X, Y))
    assert model.called == ((X,), {})
    logits_of(model, Batch((X, Y), Y))
    assert model.called == ((X, Y), {})
    logits_of(model, Batch({"x": X}, Y))
    assert model.called == ((), {"x": X})


@pytest.mark.parametrize(
    ("output", "named"),
    [
        (torch.randn(4), "(4,)"),
        (torch.randn(4, 3, 5), "(4, 3, 5)"),
        (torch.randn(3, 4), "(3, 4)"),
        ((torch.randn(4, 3), None), "tuple"),
        ({"scores": torch.randn(4, 3)}, "dict"),
        (None, "NoneType"),
    ],
)
def test_what_is_not_logits_is_refused(output: Any, named: str) -> None:
    """The message tells which shape or type the model returned."""
    with pytest.raises(UnsupportedModel) as caught:
        logits_of(Returning(output), Batch(X, Y))
    assert named in str(caught.value)
    assert "4 samples" in str(caught.value)


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        (torch.randn(4, 3).softmax(dim=1), "probabilities"),
        (torch.eye(3), "probabilities"),
        (torch.randn(4, 1), "one output"),
        (torch.tensor([[0.0, float("nan")]]), "NaN"),
        (torch.tensor([[0.0, float("-inf")]]), "Inf"),
    ],
)
def test_scores_that_cannot_be_logits_are_refused(scores: Tensor, reason: str) -> None:
    """Probabilities, a single output and values that are not finite."""
    with pytest.raises(UnsupportedModel, match=reason):
        check_logits(scores)


@pytest.mark.parametrize("scores", [torch.randn(4, 3), torch.randn(4, 3).log_softmax(dim=1), torch.zeros(4, 3)])
def test_logits_are_accepted(scores: Tensor) -> None:
    """Any finite scores that are not probabilities, log-probabilities among them."""
    check_logits(scores)


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
