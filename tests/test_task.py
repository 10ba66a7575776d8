"""The samples of a run: four sets that do not overlap where they must not, read when they are needed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from unsc.batches import Batch, HasSamples
from unsc.errors import InvalidData
from unsc.on_demand import picked
from unsc.task import RetainFit, draw_retained, split_forgotten

LABELS = torch.arange(90) % 3
NUMBERED = TensorDataset(torch.arange(90.0)[:, None], LABELS)
"""30 samples of each of three classes; a sample's input is its position."""


class Counted(Dataset[tuple[Tensor, int]]):
    """Counts how many of its samples were read."""

    def __init__(self) -> None:
        self.reads = 0

    def __len__(self) -> int:
        return len(LABELS)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        self.reads += 1
        return torch.tensor([float(i)]), int(LABELS[i])


def numbers(batches: list[Batch]) -> list[int]:
    return [int(x) for batch in batches for x in batch.inputs.flatten().tolist()]


def test_samples_to_fit_and_to_check_are_different_ones_of_every_class() -> None:
    fit, check = draw_retained(NUMBERED, LABELS, per_class=8, label_key=None, seed=0)
    fitted, checked = numbers(list(fit.all())), numbers(check)
    assert not set(fitted) & set(checked)
    assert [len(own) for own in fit.positions.values()] == [8, 8, 8]
    assert {k: sum(int(LABELS[i]) == k for i in checked) for k in range(3)} == {0: 4, 1: 4, 2: 4}


def test_samples_to_check_do_not_grow_with_the_classes() -> None:
    """Up to 64 of a class, a thousand in all, and one of each where there are more classes than that."""
    for classes, each in ((4, 64), (64, 16), (2000, 1)):
        labels = torch.arange(400 * classes) % classes
        data = TensorDataset(torch.zeros(len(labels), 1), labels)
        _, check = draw_retained(data, labels, per_class=256, label_key=None, seed=0)
        assert torch.cat([batch.labels for batch in check]).bincount().tolist() == [each] * classes


def test_samples_to_fit_are_not_read_before_they_are_needed() -> None:
    data = Counted()
    fit, check = draw_retained(data, LABELS, per_class=20, label_key=None, seed=0)
    assert data.reads == sum(map(len, check))
    list(fit.of_class(1))
    assert data.reads == sum(map(len, check)) + len(fit.positions[1])


def test_drawn_samples_are_among_those_to_fit_and_each_comes_once() -> None:
    fit, _ = draw_retained(NUMBERED, LABELS, per_class=8, label_key=None, seed=0)
    drawn = list(fit.draw(10, 4, torch.Generator().manual_seed(0)))
    assert [len(batch) for batch in drawn] == [4, 4, 2]
    assert len(set(numbers(drawn))) == 10
    assert set(numbers(drawn)) <= set(numbers(list(fit.all())))


def test_labels_that_differ_from_the_data_are_refused() -> None:
    fit, _ = draw_retained(NUMBERED, (LABELS + 1) % 3, per_class=8, label_key=None, seed=0)
    with pytest.raises(InvalidData, match="labels says 0 where the data set gives 2"):
        list(fit.of_class(0))


def test_samples_at_hand_are_found_by_class() -> None:
    fit = RetainFit.from_batch(Batch(NUMBERED.tensors[0], LABELS))
    assert len(fit) == 90
    assert {int(k) for batch in fit.of_class(2) for k in batch.labels} == {2}


@pytest.mark.parametrize(("size", "share", "most"), [(40, 0.1, 256), (40, 0.5, 256), (40, 0.5, 3), (2, 0.1, 256)])
def test_samples_to_check_are_not_learned_from(size: int, share: float, most: int) -> None:
    """The samples are parted in two by the seed, with at least the share held out, and at most `most`."""
    whole = Batch(torch.arange(size)[:, None], torch.zeros(size, dtype=torch.long))
    fit, check = split_forgotten(whole, share, most=most, seed=3)
    a, b = _inputs(fit), _inputs(check)
    assert sorted(a + b) == list(range(size))
    assert a
    assert min(most, max(1, int(share * size))) <= len(b) <= most
    assert _inputs(split_forgotten(whole, share, most=most, seed=3)[1]) == b


@pytest.mark.parametrize(("size", "share"), [(10, 0.0), (1, 0.5)])
def test_where_none_can_be_spared_all_samples_serve_for_both(size: int, share: float) -> None:
    whole = Batch(torch.arange(size)[:, None], torch.zeros(size, dtype=torch.long))
    for part in split_forgotten(whole, share, seed=0):
        assert sorted(_inputs(part)) == list(range(size))


def _inputs(samples: HasSamples) -> list[int]:
    return samples[torch.arange(len(samples))].inputs.flatten().tolist()


def test_picked_samples_are_not_copied() -> None:
    """Those to learn from are most of those at hand: a copy would hold them twice. A part of a part is one as well."""
    batch = Batch(torch.arange(12.0).view(6, 2), torch.arange(6))
    some = picked(batch, torch.tensor([4, 1, 3]))
    again = picked(some, torch.tensor([2, 0]))
    assert [x.take.__self__ is batch for x in (some, again)] == [True, True]  # type: ignore[attr-defined]
    assert some.labels.tolist() == [4, 1, 3] and again.labels.tolist() == [3, 4]
    assert again[torch.tensor([1])].inputs.tolist() == [[8.0, 9.0]]
    assert len(some[torch.tensor([], dtype=torch.long)]) == 0
