"""Samples and labels out of data sets, which give `(x, y)` pairs or dicts with a label key.

A `Source` is a map-style data set that knows the form of its samples; whatever is made of it (a `Subset`) knows it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    default_collate,
    default_convert,
)

from unsc import peers
from unsc.batches import LABEL_KEYS, Batch, as_batch, join
from unsc.errors import InvalidData, UnscError
from unsc.forms import Collate, Form, columns_taken_by
from unsc.progress import Progress, quiet

Data: TypeAlias = Dataset[Any] | DataLoader[Any] | Sequence[Any]
"""What a user may bring: a map-style data set, a loader of one, or a list of samples."""

_BATCH = 256
"""Samples in a batch, where that does not matter."""
_COMPARED = 8
"""Samples that are read to see whether labels which a data set offers by themselves are those of its samples."""


def check_map_style(dataset: Any) -> None:
    """Refuse a loader, an iterable or bare tensors where a data set is needed that can be asked for sample i."""
    tensors = isinstance(dataset, (tuple, list)) and any(torch.is_tensor(part) for part in dataset)
    readable = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__") and not isinstance(dataset, (str, bytes))
    if tensors or not readable:
        raise InvalidData(
            f"the data is a {type(dataset).__name__}; give a map-style data set, whose len() and [i] work, or a "
            "DataLoader of one: torch.utils.data.TensorDataset(x, y), a list of (x, y)"
        )


def size_of(dataset: Dataset[Any]) -> int:
    """How many samples a map-style data set has."""
    return len(dataset)  # type: ignore[arg-type]  # torch's Dataset declares no length


@dataclass(frozen=True)
class Source(Dataset[Any]):
    """A map-style data set and the form of its samples."""

    dataset: Dataset[Any]
    form: Form

    def __len__(self) -> int:
        return size_of(self.dataset)

    def __getitem__(self, i: int) -> Any:
        return self.dataset[i]


def as_source(
    data: Any, model: nn.Module, *, label_key: str | None = None, collate_fn: Collate | None = None
) -> Source:
    """A map-style data set, or the one inside a `DataLoader`, with samples in the form that `model` takes."""
    if isinstance(data, Source):
        return data
    form = form_for(model, data, label_key=label_key, collate_fn=collate_fn)
    if isinstance(data, DataLoader):
        if isinstance(data.sampler, SubsetRandomSampler):
            raise InvalidData(
                "the loader draws from a part of its data set (SubsetRandomSampler), so it is not known which samples "
                "the model was trained on; give torch.utils.data.Subset(dataset, indices) instead"
            )
        data = data.dataset
    check_map_style(data)
    few = [_sample(data, i) for i in range(min(2, size_of(data)))] if form.collate is not None else []
    return Source(data, form.fitting(few))


def form_for(model: nn.Module, data: Any, *, label_key: str | None = None, collate_fn: Collate | None = None) -> Form:
    """The form of samples for `model`; a loader's own way to collate counts unless another is given."""
    if collate_fn is None and isinstance(data, DataLoader):
        collate_fn = data.collate_fn
    plain = collate_fn in (None, default_collate, default_convert)
    return Form(label_key, None if plain else collate_fn, columns_taken_by(model))


def batches_of(
    data: Any, model: nn.Module, *, label_key: str | None = None, collate_fn: Collate | None = None
) -> Iterator[Batch]:
    """All samples of a loader, of a data set or of a list of samples, in batches that `model` takes."""
    form = form_for(model, data, label_key=label_key, collate_fn=collate_fn)
    if isinstance(data, IterableDataset):

        def collate(rows: list[Any]) -> Batch:
            return form.batch(rows, range(len(rows)))

        data = DataLoader(data, batch_size=_BATCH, collate_fn=collate)
    if _gives_samples(data, form):
        source = as_source(data, model, label_key=label_key, collate_fn=collate_fn)
        yield from read_batches(source, torch.arange(len(source)), size=_BATCH)
        return
    if not hasattr(data, "__iter__"):
        check_map_style(data)
    for collated in data:
        yield collated if isinstance(collated, Batch) else form.of_collated(collated)


def _gives_samples(data: Any, form: Form) -> bool:
    """Whether this is a data set or a list of single samples, and not of batches."""
    if isinstance(data, (list, tuple)):
        if not data or isinstance(data[0], Batch):
            return False
        first = data[0]
        keys = LABEL_KEYS if form.label_key is None else (form.label_key,)
        label = next((first[k] for k in keys if k in first), 0) if hasattr(first, "keys") else first[-1]
        return not hasattr(label, "__len__") or getattr(label, "ndim", 1) == 0
    return hasattr(data, "__getitem__") and hasattr(data, "__len__")


def read(dataset: Dataset[Any], indices: Sequence[int], *, label_key: str | None = None) -> Batch:
    """The samples at `indices` of a map-style data set, as one batch. The form of a `Source` is its own."""
    return _read(dataset, indices, Form(label_key))


def _read(dataset: Dataset[Any], indices: Sequence[int], form: Form) -> Batch:
    if isinstance(dataset, Source):
        return _read(dataset.dataset, indices, dataset.form)
    if type(dataset) is Subset and len(indices):
        # One by one: as a tensor, all indices of a large subset would be converted for every batch.
        return _read(dataset.dataset, [int(dataset.indices[i]) for i in indices], form)
    if form.collate is None and isinstance(dataset, TensorDataset):  # a hundred times faster than one item at a time
        chosen = torch.as_tensor(indices, dtype=torch.long)
        if type(dataset) is not TensorDataset or (chosen < 0).any():
            return as_batch(dataset[chosen])  # type: ignore[index]
        return as_batch([t.index_select(0, chosen.to(t.device)) for t in dataset.tensors])  # four times as fast as `[]`
    if form.collate is None and type(dataset) is ConcatDataset and len(indices):
        return _read_parts(dataset, torch.as_tensor(indices), form)
    return form.batch(_samples(dataset, indices), indices)


def _samples(dataset: Dataset[Any], indices: Sequence[int]) -> list[Any]:
    """Single samples; at once where the data set offers that, as it does to a `DataLoader`."""
    together = getattr(dataset, "__getitems__", None)
    if together is None:
        return [_sample(dataset, i) for i in indices]
    try:
        return list(together(list(indices)))
    except UnscError:
        raise
    except Exception:  # the one that cannot be read will be named
        return [_sample(dataset, i) for i in indices]


def _sample(dataset: Dataset[Any], i: int) -> Any:
    try:
        return dataset[i]
    except UnscError:
        raise
    except Exception as e:  # the user's own data set may raise anything
        raise InvalidData(f"sample {i} of the data set cannot be read ({type(e).__name__}: {e}); correct it") from e


def _read_parts(dataset: ConcatDataset[Any], indices: Tensor, form: Form) -> Batch:
    """Each part is read by itself, and the samples are put back into the order that was asked for."""
    ends = torch.tensor(dataset.cumulative_sizes)
    part = torch.searchsorted(ends, indices, right=True)
    order = part.argsort(stable=True)
    found = [
        _read(dataset.datasets[p], (indices[part == p] - (ends[p - 1] if p else 0)).tolist(), form)
        for p in part.unique().tolist()
    ]
    return join(found)[order.argsort()]


def read_labels(dataset: Dataset[Any], *, label_key: str | None = None, progress: Progress = quiet) -> Tensor:
    """Every sample's label, int64 (n,).

    Taken from where the data set offers them by themselves (`.targets`, `.labels`, a column of that name), if a few
    samples that are read agree; only otherwise are all samples read, by each rank a part of them.
    """
    offered = offered_labels(dataset, label_key=label_key)
    return offered if offered is not None else _labels_of_samples(dataset, Form(label_key), progress)


def offered_labels(dataset: Dataset[Any], *, label_key: str | None = None) -> Tensor | None:
    """Every sample's label, int64 (n,), if the data set offers them without reading all samples; else None."""
    return _offered(dataset, Form(label_key))


def _offered(dataset: Dataset[Any], form: Form) -> Tensor | None:
    if isinstance(dataset, Source):
        return _offered(dataset.dataset, dataset.form)
    if size_of(dataset) == 0:
        raise InvalidData("the data set is empty; give the training set the model was trained on")
    if isinstance(dataset, Subset):
        whole = _offered(dataset.dataset, form)
        return None if whole is None else whole[torch.as_tensor(dataset.indices)]
    if isinstance(dataset, ConcatDataset):
        parts = [part for d in dataset.datasets if (part := _offered(d, form)) is not None]
        return torch.cat(parts) if len(parts) == len(dataset.datasets) else None
    if form.collate is None and isinstance(dataset, TensorDataset):
        return as_batch((dataset.tensors[-1], dataset.tensors[-1])).labels
    return _offered_labels(dataset, size_of(dataset), form)


def _labels_of_samples(dataset: Dataset[Any], form: Form, progress: Progress) -> Tensor:
    """By reading all samples, by each rank a part of them."""
    size = size_of(dataset)
    with progress("reading labels", -(-size // peers.count())) as advance:

        def of(positions: Tensor) -> Tensor:
            labels: list[Tensor] = []
            for some in positions.split(_BATCH):
                for label in _labels_at(dataset, some.tolist(), form):
                    labels.append(label)
                    advance()
            return torch.cat(labels)

        return peers.everyones(size, of)


def _labels_at(dataset: Dataset[Any], indices: Sequence[int], form: Form) -> Iterator[Tensor]:
    """Of each sample by itself: what is filled up when samples are joined does not matter here."""
    if isinstance(dataset, Source):
        yield from _labels_at(dataset.dataset, indices, dataset.form)
    elif type(dataset) is Subset:
        yield from _labels_at(dataset.dataset, [int(dataset.indices[i]) for i in indices], form)
    elif type(dataset) is ConcatDataset:  # its parts may have forms of their own
        yield from (_read(dataset, [i], form).labels for i in indices)
    else:
        for i, sample in zip(indices, _samples(dataset, indices), strict=True):
            yield form.batch([sample], [i]).labels


def _offered_labels(dataset: Dataset[Any], size: int, form: Form) -> Tensor | None:
    """Labels that a data set holds by themselves, as torchvision's and Hugging Face's do; None if they do not fit.

    A transform may give samples other labels than the data set stores, so some samples are read and compared.
    """
    for values in _label_columns(dataset, form.label_key):
        try:
            labels = torch.as_tensor(values)
        except (TypeError, ValueError, RuntimeError):
            continue
        if labels.shape != (size,) or labels.is_floating_point() or labels.dtype == torch.bool:
            continue
        few = torch.linspace(0, size - 1, min(size, _COMPARED)).long()
        if all(int(_read(dataset, [i], form).labels[0]) == int(labels[i]) for i in few.tolist()):
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
