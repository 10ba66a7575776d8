"""Samples of any form become batches that the model takes; what cannot is named, with what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from blobs import blobs, learned, network, samples
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import ConcatDataset, DataLoader, Subset, SubsetRandomSampler

import unsc
from unsc.batches import Batch, Padding, join
from unsc.datasets import as_source, batches_of, read, read_labels
from unsc.errors import InvalidData
from unsc.forms import Form, columns_taken_by


class Takes(nn.Module):
    """Takes points by name, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()

    def forward(self, points: Tensor, scale: float = 1.0) -> Tensor:
        return self.body(points * scale)


class TakesAnything(Takes):
    def forward(self, points: Tensor, **others: Any) -> Tensor:
        return self.body(points)


def rows(**others: Any) -> list[dict[str, Any]]:
    """The blobs as dicts with points in lists, as Hugging Face gives them."""
    x, y = blobs().tensors
    return [{"points": a.tolist(), "label": int(b), **others} for a, b in zip(x, y, strict=True)]


def test_lists_become_tensors() -> None:
    """Whole, and not taken apart as torch's own collating does."""
    source = as_source(rows(), Takes())
    batch = read(source, [0, 50, 159])
    torch.testing.assert_close(batch.inputs["points"], blobs().tensors[0][[0, 50, 159]])
    assert batch.labels.tolist() == [0, 1, 3]


def test_arrays_and_lists_that_a_collator_leaves_become_tensors() -> None:
    def collate(samples: list[Any]) -> dict[str, Any]:
        return {
            "points": [s["points"] for s in samples],
            "scale": np.ones((len(samples), 1), dtype=np.float32),
            "labels": [s["label"] for s in samples],
        }

    batch = read(as_source(rows(), Takes(), collate_fn=collate), [0, 1])
    assert batch.inputs["points"].shape == (2, 6)
    assert batch.inputs["scale"].dtype == torch.float32


def test_columns_that_the_model_does_not_take_are_left_out() -> None:
    """Before they are collated: text of any length does no harm."""
    data = [row | {"text": "a" * i, "ids": [0] * i} for i, row in enumerate(rows())]
    assert read(as_source(data, Takes()), range(160)).inputs.keys() == {"points"}
    assert columns_taken_by(Takes()) == {"points", "scale"}
    assert columns_taken_by(torch.nn.DataParallel(Takes())) == {"points", "scale"}


def test_a_model_that_takes_anything_is_given_everything() -> None:
    assert columns_taken_by(TakesAnything()) is None
    assert read(as_source(rows(weight=1.0), TakesAnything()), [0]).inputs.keys() == {"points", "weight"}


def test_a_model_that_takes_no_column_says_so() -> None:
    with pytest.raises(InvalidData, match=r"none of the columns points, label: its forward has input.*rename_column"):
        unsc.forget(network(), rows(), classes=[3])


def test_a_collate_function_may_need_columns_that_the_model_does_not_take() -> None:
    data = [{"x": row["points"], "label": row["label"]} for row in rows()]

    def collate(samples: list[Any]) -> dict[str, Tensor]:
        points = torch.tensor([s["x"] for s in samples])
        return {"points": points, "labels": torch.tensor([s["label"] for s in samples])}

    assert read(as_source(data, Takes(), collate_fn=collate), [0]).inputs.keys() == {"points"}


def test_a_collate_function_may_choke_on_columns_that_the_model_does_not_take() -> None:
    """Then it is given those alone that the model takes."""

    def collate(samples: list[Any]) -> dict[str, Tensor]:
        return {key: torch.tensor([s[key] for s in samples]) for key in samples[0]}

    source = as_source(rows(text="words"), Takes(), collate_fn=collate)
    assert read(source, [0, 1]).inputs["points"].shape == (2, 6)


@pytest.mark.parametrize("how", ["loader", "collate_fn"])
def test_a_loader_stands_for_its_data_set(how: str) -> None:
    """The same weights as from the data set itself, whatever the loader's order."""
    data, model = blobs(), learned(network(), blobs())

    def collate(samples: list[Any]) -> tuple[Tensor, Tensor]:
        return torch.stack([x for x, _ in samples]), torch.stack([y for _, y in samples])

    plain = unsc.forget(model, data, classes=[3], max_passes=1).model
    given: dict[str, Any] = {"collate_fn": collate} if how == "collate_fn" else {}
    other = data if how == "collate_fn" else DataLoader(data, batch_size=7, shuffle=True, collate_fn=collate)
    result = unsc.forget(model, other, classes=[3], max_passes=1, **given).model
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), result.parameters(), strict=True))


def test_a_loader_of_a_part_is_refused() -> None:
    """It does not say which samples the model was trained on."""
    loader = DataLoader(blobs(), sampler=SubsetRandomSampler(range(20)))
    with pytest.raises(InvalidData, match=r"Subset\(dataset, indices\)"):
        unsc.forget(network(), loader, classes=[3])


class Sequences(nn.Module):
    """Classifies sequences of tokens by their mean, of which tokens at 9 are no part."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.head = nn.Embedding(10, 8), nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        there = (tokens != 9)[..., None]
        return self.head((self.words(tokens) * there).sum(1) / there.sum(1))


def sentences() -> list[tuple[Tensor, int]]:
    """Of class k, and of lengths that grow: most tokens are k."""
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.cat([torch.full((2 + i // 30,), i % 3), torch.randint(3, 9, (1,), generator=generator)]), i % 3)
        for i in range(180)
    ]


def padded(samples: list[tuple[Tensor, int]], left: bool = False) -> tuple[Tensor, Tensor]:
    tokens = [x.flip(0) if left else x for x, _ in samples]
    together = pad_sequence(tokens, batch_first=True, padding_value=9)
    return together.flip(1) if left else together, torch.tensor([y for _, y in samples])


@pytest.mark.parametrize("left", [False, True])
def test_how_sequences_are_filled_up_is_learned(left: bool) -> None:
    """Batches of different lengths are joined as the collate function itself would have made them."""
    data = sentences()
    source = as_source(data, Sequences(), collate_fn=lambda samples: padded(samples, left))
    parts = [read(source, range(i, i + 60)) for i in (0, 60, 120)]
    assert len({part.inputs.shape[1] for part in parts}) == 3
    assert parts[0].paddings == {0: Padding(9, left)}
    assert torch.equal(join(parts).inputs, padded(data, left)[0])


def test_batches_of_different_lengths_are_not_joined_by_guess() -> None:
    short, long = (Batch(torch.zeros(2, n, dtype=torch.long), torch.zeros(2, dtype=torch.long)) for n in (3, 5))
    with pytest.raises(InvalidData, match=r"3, 5 positions in the input 0.*max_length"):
        join([short, long])


def test_unpadded_text_is_forgotten_with_a_collate_function() -> None:
    data, model = sentences(), Sequences()
    x, y = padded(data)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(40):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    result = unsc.forget(model.eval(), data, classes=[1], collate_fn=padded)
    assert result.ok
    after = unsc.evaluate(result.model, data, classes=[1], collate_fn=padded)
    assert after.forget_test_acc == 0
    assert after.retain_test_acc > 95


def test_samples_of_different_lengths_are_named() -> None:
    """And what to give so that they are not."""
    with pytest.raises(InvalidData, match=r"sample 0 has part 0 \(3,\).*and sample 30 has part 0 \(4,\).*collate_fn="):
        read(as_source(sentences(), Sequences()), range(60))


def test_images_without_a_transform_are_named() -> None:
    images = pytest.importorskip("PIL.Image")
    data = [(images.new("RGB", (4, 4)), i % 4) for i in range(20)]
    with pytest.raises(InvalidData, match=r"sample 0 holds a PIL image.*ToTensor\(\).*set_transform"):
        unsc.forget(network(), data, classes=[3])


def test_images_of_different_sizes_are_named() -> None:
    data = [(torch.zeros(3, 4 + i, 4), 0) for i in range(3)]
    with pytest.raises(InvalidData, match=r"sample 0 .*\(3, 4, 4\).*sample 1 .*\(3, 5, 4\).*a transform"):
        read(data, [0, 1, 2])  # type: ignore[arg-type]


def test_a_collate_function_that_raises_is_named() -> None:
    def collate(samples: list[Any]) -> Any:
        raise KeyError("pixels")

    with pytest.raises(InvalidData, match=r"samples 0, 1, 2, 3 \(KeyError: 'pixels'\)"):
        unsc.forget(network(), blobs(), classes=[3], collate_fn=collate)


def test_a_sample_that_cannot_be_read_is_named() -> None:
    class Broken(list[Any]):
        def __getitem__(self, i: Any) -> Any:
            if i == 2:
                raise OSError("truncated file")
            return super().__getitem__(i)

    with pytest.raises(InvalidData, match=r"sample 2 .*OSError: truncated file"):
        unsc.forget(network(), Broken(samples(blobs())), classes=[3])


def test_what_is_made_of_a_source_knows_its_form() -> None:
    """Subsets of it and concatenations, their labels too: nobody else has to know the label's key."""
    data = [{"points": row["points"], "kind": row["label"]} for row in rows()]
    source = as_source(data, Takes(), label_key="kind")
    part = ConcatDataset([Subset(source, [0, 159]), Subset(source, [40])])
    assert read_labels(part).tolist() == [0, 3, 1]
    assert read(part, [2, 0]).labels.tolist() == [1, 0]
    assert as_source(source, Takes()) is source


@pytest.mark.parametrize("kind", ["data set", "samples", "loader", "batches", "dicts", "iterable", "nothing"])
def test_batches_come_from_data_of_any_kind(kind: str) -> None:
    data = blobs()

    class Stream(torch.utils.data.IterableDataset[Any]):
        def __iter__(self) -> Any:
            return iter(samples(data))

    given: dict[str, Any] = {
        "data set": data,
        "samples": samples(data),
        "loader": DataLoader(data, 50),
        "batches": list(DataLoader(data, 50)),
        "dicts": rows(),
        "iterable": Stream(),
        "nothing": [],
    }
    model = Takes() if kind == "dicts" else network()
    labels = [k for batch in batches_of(given[kind], model) for k in batch.labels.tolist()]
    assert labels == ([] if kind == "nothing" else data.tensors[1].tolist())


def test_forms_are_equal_by_what_they_say() -> None:
    """What was learned of paddings is no part of it."""
    assert Form("kind") == Form("kind", paddings={0: Padding(0, False)})
