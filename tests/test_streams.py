"""Data that is too large to be kept, or that can only be read once: bounds hold, and results do not change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from blobs import Counted, blobs, learned, network
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

import unsc
from unsc.batches import Batch
from unsc.errors import InvalidData, InvalidRequest
from unsc.on_demand import bytes_of
from unsc.streams import kept_of

DATA = blobs(120)
EACH = 6 * 4
"""Bytes of a sample."""


class Stream(IterableDataset):
    """The points in random order; how often it was read is noted."""

    def __init__(self) -> None:
        self.reads = 0

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        self.reads += 1
        for i in torch.randperm(len(DATA), generator=torch.Generator().manual_seed(7)).tolist():
            yield DATA.tensors[0][i], int(DATA.tensors[1][i])


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return learned(network(), DATA)


def _batches(labels: list[int]) -> Iterator[Batch]:
    x = torch.arange(len(labels)).float()[:, None].repeat(1, 6)
    for chosen in torch.arange(len(labels)).split(7):
        yield Batch(x[chosen], torch.tensor(labels)[chosen])


def test_a_stream_is_read_once_and_forgotten_from(model: nn.Module) -> None:
    stream = Stream()
    result = unsc.forget(model, stream, classes=[3])
    assert stream.reads == 1
    assert result.ok and result.metrics.forget_acc == 0


def test_a_loader_of_a_stream_is_the_same(model: nn.Module) -> None:
    results = [unsc.forget(model, data, classes=[3]) for data in (Stream(), DataLoader(Stream(), batch_size=256))]
    one, other = (torch.cat([p.flatten() for p in result.model.parameters()]) for result in results)
    assert torch.equal(one, other)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_is_within_its_bounds(seed: int) -> None:
    labels = [0] * 50 + [1] * 20 + [2] * 30
    most = 30 * EACH
    source, kept = kept_of(_batches(labels), going=(0,), per_class=12, most=most, seed=seed)
    held = {k: [i for i in range(len(source)) if kept[i] == k] for k in (0, 1, 2)}
    assert 15 <= len(held[0]) <= 30
    assert len(held[1]) == len(held[2]) == 12
    assert sum(bytes_of(source.dataset[i]) for i in held[0]) <= most
    came = [int(source.dataset[i].inputs[0, 0]) for i in range(len(source))]
    assert came == sorted(came) and [labels[i] for i in came] == kept.tolist()


def test_every_sample_has_the_same_chance() -> None:
    kept = torch.zeros(40)
    for seed in range(400):
        source, _ = kept_of(_batches([0] * 40), going=(), per_class=1000, most=11 * EACH, seed=seed)
        kept[[int(source.dataset[i].inputs[0, 0]) for i in range(len(source))]] += 1
    share = kept / kept.sum()
    # Each of 40 is kept about 400 * 8 / 40 times: a share beyond these bounds is five standard deviations away.
    assert (share > 0.5 / 40).all() and (share < 1.5 / 40).all()


def test_records_are_not_found_in_a_stream(model: nn.Module) -> None:
    with pytest.raises(InvalidRequest, match="has none; give a map-style data set"):
        unsc.forget(model, Stream(), indices=[3])
    with pytest.raises(InvalidRequest, match="leave labels and num_workers out"):
        unsc.forget(model, Stream(), classes=[3], num_workers=2)


def test_forgotten_samples_that_do_not_fit_are_read_again(model: nn.Module) -> None:
    """They give the same result as samples that are kept."""
    kept, read = Counted(DATA), Counted(DATA)
    results = [
        unsc.forget(model, kept, classes=[3]),
        unsc.forget(model, read, classes=[3], sample_bytes=100 * EACH),
    ]
    one, other = (torch.cat([p.flatten() for p in result.model.parameters()]) for result in results)
    torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    assert read.reads > kept.reads


def test_records_that_do_not_fit_are_read_again(model: nn.Module) -> None:
    wanted: dict[str, Any] = {"indices": range(0, 480, 40), "targets": "away", "max_passes": 2}
    results = [unsc.forget(model, Counted(DATA), **wanted, sample_bytes=size) for size in (1 << 20, 1)]
    one, other = (torch.cat([p.flatten() for p in result.model.parameters()]) for result in results)
    torch.testing.assert_close(one, other, rtol=0, atol=1e-4)


def test_labels_that_are_wrong_are_noticed_when_samples_are_read_again(model: nn.Module) -> None:
    labels = DATA.tensors[1].clone()
    labels[labels == 2] = 3
    with pytest.raises(InvalidData, match="labels says 3 where the data set gives 2"):
        unsc.forget(model, Counted(DATA), classes=[3], labels=labels.tolist(), sample_bytes=1)


def test_processes_read_the_same_samples_and_start_once(model: nn.Module) -> None:
    results = [unsc.forget(model, Counted(DATA), classes=[3], num_workers=count) for count in (0, 1)]
    one, other = (torch.cat([p.flatten() for p in result.model.parameters()]) for result in results)
    assert torch.equal(one, other)


def test_a_data_set_that_cannot_be_handed_over_is_refused_at_once(model: nn.Module) -> None:
    class Local(Counted):
        pass

    with pytest.raises(InvalidData, match="num_workers=0"):
        unsc.forget(model, Local(DATA), classes=[3], num_workers=1)
