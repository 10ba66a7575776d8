"""Map-style data sets: samples and labels out of them. They give `(x, y)` pairs or dicts with a label key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset, default_collate

from unsc.batches import LABEL_KEYS, Batch, as_batch, join
from unsc.errors import InvalidData
from unsc.progress import Progress, quiet

_COMPARED = 8
"""Samples that are read to see whether labels which a data set offers by themselves are those of its samples."""


def check_map_style(dataset: Any) -> None:
    """Refuse a loader, an iterable or bare tensors where a data set is needed that can be asked for sample i."""
    tensors = isinstance(dataset, (tuple, list)) and any(torch.is_tensor(part) for part in dataset)
    if tensors or not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise InvalidData(
            f"the data is a {type(dataset).__name__}; give a map-style data set, whose len() and [i] work: a loader's "
            "own .dataset, torch.utils.data.TensorDataset(x, y), or a list of (x, y)"
        )


def size_of(dataset: Dataset[Any]) -> int:
    """How many samples a map-style data set has."""
    return len(dataset)  # type: ignore[arg-type]  # torch's Dataset declares no length


def read(dataset: Dataset[Any], indices: Sequence[int], *, label_key: str | None = None) -> Batch:
    """The samples at `indices` of a map-style data set, as one batch."""
    if isinstance(dataset, TensorDataset):  # slicing is a hundred times faster than one item at a time
        return as_batch(dataset[torch.as_tensor(indices)])  # type: ignore[index]
    if type(dataset) is Subset and len(indices):
        chosen = torch.as_tensor(dataset.indices)[torch.as_tensor(indices)]
        return read(dataset.dataset, chosen.tolist(), label_key=label_key)
    if type(dataset) is ConcatDataset and len(indices):
        return _read_parts(dataset, torch.as_tensor(indices), label_key)
    return as_batch(default_collate([dataset[i] for i in indices]), label_key=label_key)


def _read_parts(dataset: ConcatDataset[Any], indices: Tensor, label_key: str | None) -> Batch:
    """Each part is read by itself, and the samples are put back into the order that was asked for."""
    ends = torch.tensor(dataset.cumulative_sizes)
    part = torch.searchsorted(ends, indices, right=True)
    order = part.argsort(stable=True)
    found = [
        read(dataset.datasets[p], (indices[part == p] - (ends[p - 1] if p else 0)).tolist(), label_key=label_key)
        for p in part.unique().tolist()
    ]
    return join(found)[order.argsort()]


def read_labels(dataset: Dataset[Any], *, label_key: str | None = None, progress: Progress = quiet) -> Tensor:
    """Every sample's label, int64 (n,).

    Taken from where the data set offers them by themselves (`.targets`, `.labels`, a column of that name), if a few
    samples that are read agree; only otherwise are all samples read.
    """
    size = size_of(dataset)
    if size == 0:
        raise InvalidData("the data set is empty; give the training set the model was trained on")
    if isinstance(dataset, Subset):
        return read_labels(dataset.dataset, label_key=label_key, progress=progress)[torch.as_tensor(dataset.indices)]
    if isinstance(dataset, ConcatDataset):
        return torch.cat([read_labels(d, label_key=label_key, progress=progress) for d in dataset.datasets])
    if isinstance(dataset, TensorDataset):
        return as_batch((dataset.tensors[-1], dataset.tensors[-1])).labels
    offered = _offered_labels(dataset, size, label_key)
    if offered is not None:
        return offered
    labels: list[Tensor] = []
    with progress("reading labels", size) as advance:
        for i in range(size):
            labels.append(read(dataset, [i], label_key=label_key).labels)
            advance()
    return torch.cat(labels)


def _offered_labels(dataset: Dataset[Any], size: int, label_key: str | None) -> Tensor | None:
    """Labels that a data set holds by themselves, as torchvision's and Hugging Face's do; None if they do not fit.

    A transform may give samples other labels than the data set stores, so some samples are read and compared.
    """
    for values in _label_columns(dataset, label_key):
        try:
            labels = torch.as_tensor(values)
        except (TypeError, ValueError, RuntimeError):
            continue
        if labels.shape != (size,) or labels.is_floating_point() or labels.dtype == torch.bool:
            continue
        few = torch.linspace(0, size - 1, min(size, _COMPARED)).long()
        if all(int(read(dataset, [i], label_key=label_key).labels[0]) == int(labels[i]) for i in few.tolist()):
            return labels.long()
    return None


def _label_columns(dataset: Any, label_key: str | None) -> Iterator[Any]:
    columns = getattr(dataset, "column_names", None)
    if isinstance(columns, list):  # Hugging Face: a column is read without decoding the others
        keys = LABEL_KEYS if label_key is None else (label_key,)
        yield from (dataset[key][:] for key in keys if key in columns)
    for name in ("targets", "labels"):
        if (values := getattr(dataset, name, None)) is not None:
            yield values


def read_batches(
    dataset: Dataset[Any], indices: Tensor, *, size: int, label_key: str | None = None, seed: int | None = None
) -> Iterator[Batch]:
    """`indices` of the data set in batches of `size`, shuffled if a `seed` is given."""
    if seed is not None:
        order = torch.randperm(len(indices), generator=torch.Generator().manual_seed(seed))
        indices = indices[order]
    for chosen in indices.split(size) if len(indices) else ():
        yield read(dataset, chosen.tolist(), label_key=label_key)


def by_class(loader: Iterable[Any], *, limit: int, size: int = 64, label_key: str | None = None) -> Iterator[Batch]:
    """Regroup a loader's samples into batches of a single class, at most `limit` samples of each class."""
    waiting: dict[int, list[Batch]] = {}
    taken: dict[int, int] = {}
    for collated in loader:
        batch = as_batch(collated, label_key=label_key)
        for label in batch.labels.unique().tolist():
            part = batch[(batch.labels == label).nonzero().flatten()[: limit - taken.get(label, 0)]]
            if len(part) == 0:
                continue
            taken[label] = taken.get(label, 0) + len(part)
            waiting.setdefault(label, []).append(part)
            if sum(map(len, waiting[label])) >= size:
                yield join(waiting.pop(label))
    for parts in waiting.values():
        yield join(parts)
