"""Copies of records: planted ones are found, and only those."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from blobs import blobs, learned, network
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

import unsc
from unsc import duplicates
from unsc.batches import Batch
from unsc.datasets import Source
from unsc.duplicates import Copies, Sketched, fingerprints, near_copies
from unsc.errors import NotForgottenWarning
from unsc.forms import Form
from unsc.request import Request
from unsc.result import Forgotten
from unsc.sketches import sketches

COPIES = {3: (40, 41), 7: (42,)}
"""Where samples 3 and 7 stand once more."""


def planted() -> Tensor:
    x = torch.randn(43, 2, 5, generator=torch.Generator().manual_seed(0))
    for record, places in COPIES.items():
        for place in places:
            x[place] = x[record]
    return x


class Dicts(Dataset[dict[str, Any]]):
    """Two inputs by name, in an order of choice."""

    def __init__(self, x: Tensor, names: tuple[str, str]) -> None:
        self.x, self.names = x, names

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> dict[str, Any]:
        parts = {"first": self.x[i, 0], "second": self.x[i, 1]}
        return {name: parts[name] for name in self.names} | {"label": i % 3}


@pytest.mark.parametrize("form", ["tensor", "tuple", "dict"])
def test_planted_copies_are_found_and_only_those(form: str) -> None:
    """Whatever their labels, and whatever form the inputs have; a record without a copy is not named."""
    x, y = planted(), torch.arange(43) % 3
    data: Dataset[object] = {
        "tensor": TensorDataset(x, y),
        "tuple": TensorDataset(x[:, 0], x[:, 1], y),
        "dict": Dicts(x, ("first", "second")),
    }[form]
    known = Sketched.of(Source(data, Form()))
    assert known.exact_copies([3, 5, 7]) == COPIES
    assert known.exact_copies([3, 40, 41, 5]) == {}


def test_all_inputs_count_and_so_do_type_and_shape() -> None:
    a, b = torch.zeros(1, 4), torch.ones(1, 4)
    label = torch.zeros(1, dtype=torch.long)
    inputs = [(a, a), (a, b), (b, a), a, a.view(1, 2, 2), a.double(), a.to(torch.bfloat16), {"x": a}]
    found = [fingerprints(Batch(x, label))[0] for x in inputs]
    assert len(set(found[:7])) == 7
    assert found[7] == found[3]


def test_the_order_of_names_does_not_matter() -> None:
    x = planted()
    first, second = (Source(Dicts(x, names), Form()) for names in (("first", "second"), ("second", "first")))
    assert Sketched.of(first).has(Sketched.of(second)).all()
    assert Sketched.of(first).sketches.unique().shape == (40,)


def test_samples_of_one_sketch_are_told_apart_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sketch only says what is worth a look: the same number for all samples gives the same answers."""
    monkeypatch.setattr(duplicates, "sketches", lambda batch: torch.zeros(len(batch), dtype=torch.long))
    x = planted()
    data, others = TensorDataset(x, torch.arange(43)), TensorDataset(torch.cat([x[5:7] + 1, x[3:4]]), torch.arange(3))
    known = Sketched.of(Source(data, Form()))
    assert known.exact_copies([3, 5, 7]) == COPIES
    assert known.has(Sketched.of(Source(others, Form()))).tolist() == [False, False, True]


def test_only_samples_of_one_sketch_are_read_again() -> None:
    read: list[int] = []

    class Noted(Dataset[tuple[Tensor, int]]):
        def __len__(self) -> int:
            return 43

        def __getitem__(self, i: int) -> tuple[Tensor, int]:
            read.append(i)
            return planted()[i], 0

    known = Sketched.of(Source(Noted(), Form()))
    assert sorted(read) == list(range(43))
    read.clear()
    assert known.exact_copies([3, 5]) == {3: COPIES[3]}
    assert sorted(read) == [3, 40, 41]


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.bool, torch.bfloat16, torch.int64])
def test_a_sketch_depends_on_every_entry_and_its_place(dtype: torch.dtype) -> None:
    """Of rows of any length, wherever they begin in memory; it is what a sum over words in Python is."""
    x = torch.arange(5 * 13).remainder(2).view(5, 13).to(dtype)
    x[1] = x[0]
    found = sketches(Batch(x, torch.zeros(5)))
    assert found[1] == found[0] and len(found.unique()) == 2
    for i in range(13):
        y = x[:1].clone()
        y[0, i] = 1 - int(y[0, i])
        assert sketches(Batch(y, torch.zeros(1)))[0] != found[0]
    row = bytes(x[2].view(torch.uint8).tolist())
    words = [int.from_bytes(row[k : k + 8].ljust(8, b"\0"), "little") for k in range(0, len(row), 8)]
    total = sum((2 * i + 1) * word for i, word in enumerate(words))
    assert (int(sketches(Batch(x[2:3], torch.zeros(1)))[0]) - total) % 2**64 == 0


def test_the_same_parts_in_another_order_are_another_sample() -> None:
    a, b = torch.arange(6.0)[None], torch.arange(6.0).flip(0)[None]
    one, other = (int(sketches(Batch(x, torch.zeros(1)))[0]) for x in ((a, b), (b, a)))
    assert one != other


def test_near_copies_point_in_the_same_direction() -> None:
    """Features of a network that only scales are the inputs: copies with a little noise are found, others are not."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(10, 3)).eval()
    x = planted()
    x[40:] = 3 * (x[40:] + 1e-3 * torch.randn(3, 2, 5))
    data = TensorDataset(x, torch.arange(43) % 3)
    assert Sketched.of(Source(data, Form())).exact_copies([3, 5, 7]) == {}
    assert near_copies(model, Source(data, Form()), [3, 5, 7], 3, least=0.999) == COPIES
    assert not any(m._forward_hooks for m in model.modules())


def test_copies_join_their_records_with_the_same_new_label() -> None:
    copies = Copies(exact=COPIES, near={7: (1,)}, looked_for=("exact", "near"), included=True)
    request = Request.for_records([7, 5, 3], 9, new_labels=[0, 1, 2]).with_copies(copies.origins())
    assert request.records == (1, 3, 5, 7, 40, 41, 42)
    assert request.new_labels == (0, 2, 1, 0, 2, 2, 0)
    assert "4 copies" in copies.note() and "forgotten with them" in copies.note()
    assert "not forgotten" in Copies(exact=COPIES).note()
    assert Copies().note() == ""


def test_copies_of_classes_that_are_gone_do_not_stay() -> None:
    """Their samples neither go nor stay: they are neither reported nor forgotten with the records."""
    data = blobs(each=20)
    x, y = data.tensors[0].clone(), data.tensors[1]
    x[25], x[65] = x[5], x[5]  # of classes 1 and 3
    model = learned(network(), TensorDataset(x, y), steps=20)
    options: dict[str, Any] = {"indices": [5], "targets": "lowered", "max_passes": 1, "least_gain": 0}

    def forgotten(**more: Any) -> Forgotten:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotForgottenWarning)
            return unsc.forget(model, TensorDataset(x, y), **options, **more)

    copies = [forgotten(gone=gone).metrics.records for gone in ([], [1], [1, 3])]
    assert [found.copies.exact for found in copies if found] == [{5: (25, 65)}, {5: (65,)}, {}]
    assert forgotten(gone=[1], copies="include").request.records == (5, 65)
