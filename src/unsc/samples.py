"""Data as the rest of the package sees it: batches of inputs and integer labels, and logits out of a model.

A data set gives `(x, y)` pairs or dicts with a label key. Inputs may be a tensor, a tuple of tensors (passed
to the model by position) or a dict of tensors (passed by name).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset, default_collate

from unsc.errors import InvalidData, UnsupportedModel, listing
from unsc.progress import Progress, quiet

_LABEL_KEYS = ("labels", "label", "y", "target")


@dataclass(frozen=True)
class Batch:
    """`inputs` for the model and int64 `labels` (n,)."""

    inputs: Any
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, chosen: Tensor) -> Batch:
        """The samples at positions `chosen` (k,), or where a mask (n,) is true."""
        return Batch(_map(self.inputs, lambda t: t[chosen]), self.labels[chosen])

    def for_model(self, model: nn.Module) -> Batch:
        """On the model's device, and floating point inputs in its precision."""
        like = next(model.parameters())
        move = lambda t: t.to(like.device, like.dtype if t.is_floating_point() else t.dtype)  # noqa: E731
        return Batch(_map(self.inputs, move), self.labels.to(like.device))


def as_batch(collated: Any, *, label_key: str | None = None) -> Batch:
    """A batch out of what a data loader yields: `(x, y)`, `(x1, x2, ..., y)` or a dict with a label key."""
    if isinstance(collated, Batch):
        return collated
    if isinstance(collated, Mapping):
        keys = [label_key] if label_key is not None else _LABEL_KEYS
        key = next((k for k in keys if k in collated), None)
        if key is None:
            raise InvalidData(
                f"a sample has the keys {listing(collated)} but no label key ({listing(keys)}); give label_key=..."
            )
        inputs: Any = {k: v for k, v in collated.items() if k != key}
        labels = collated[key]
    elif isinstance(collated, (tuple, list)) and len(collated) >= 2:
        *parts, labels = collated
        inputs = parts[0] if len(parts) == 1 else tuple(parts)
    else:
        raise InvalidData(f"a sample is a {type(collated).__name__}; give (x, y) pairs or dicts with a label key")
    try:
        labels = torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError):
        raise InvalidData(f"a label is {labels!r:.80}; give one integer class for each sample") from None
    if labels.dim() == 0:
        raise InvalidData("single samples came where batches are needed; wrap the data set in a DataLoader")
    if labels.dim() != 1 or labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise InvalidData(
            f"labels have shape {tuple(labels.shape)} and type {labels.dtype}; give one integer class for each sample"
        )
    for t in _tensors(inputs):
        if t.is_floating_point() and not torch.isfinite(t).all():
            raise InvalidData("the inputs hold NaN or Inf; clean the data set before forgetting from it")
    return Batch(inputs, labels.long())


def read(dataset: Dataset, indices: Sequence[int], *, label_key: str | None = None) -> Batch:
    """The samples at `indices` of a map-style data set, as one batch."""
    if isinstance(dataset, TensorDataset):  # slicing is a hundred times faster than one item at a time
        return as_batch(dataset[torch.as_tensor(indices)])  # type: ignore[index]
    if type(dataset) is Subset and len(indices):
        chosen = torch.as_tensor(dataset.indices)[torch.as_tensor(indices)]
        return read(dataset.dataset, chosen.tolist(), label_key=label_key)
    if type(dataset) is ConcatDataset and len(indices):
        return _read_parts(dataset, torch.as_tensor(indices), label_key)
    return as_batch(default_collate([dataset[i] for i in indices]), label_key=label_key)


def _read_parts(dataset: ConcatDataset, indices: Tensor, label_key: str | None) -> Batch:
    """Each part is read by itself, and the samples are put back into the order that was asked for."""
    ends = torch.tensor(dataset.cumulative_sizes)
    part = torch.searchsorted(ends, indices, right=True)
    order = part.argsort(stable=True)
    found = [
        read(dataset.datasets[p], (indices[part == p] - (ends[p - 1] if p else 0)).tolist(), label_key=label_key)
        for p in part.unique().tolist()
    ]
    return join(found)[order.argsort()]


def read_labels(dataset: Dataset, *, label_key: str | None = None, progress: Progress = quiet) -> Tensor:
    """Every sample's label, int64 (n,). Reads all samples unless the data set offers its labels by themselves."""
    size = len(dataset)  # type: ignore[arg-type]
    if size == 0:
        raise InvalidData("the data set is empty; give the training set the model was trained on")
    if isinstance(dataset, Subset):
        return read_labels(dataset.dataset, label_key=label_key, progress=progress)[torch.as_tensor(dataset.indices)]
    if isinstance(dataset, ConcatDataset):
        return torch.cat([read_labels(d, label_key=label_key, progress=progress) for d in dataset.datasets])
    if isinstance(dataset, TensorDataset):
        return as_batch((dataset.tensors[-1], dataset.tensors[-1])).labels
    labels = []
    with progress("reading labels", size) as advance:
        for i in range(size):
            labels.append(read(dataset, [i], label_key=label_key).labels)
            advance()
    return torch.cat(labels)


def batches(
    dataset: Dataset, indices: Tensor, *, size: int, label_key: str | None = None, seed: int | None = None
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


def join(parts: Sequence[Batch]) -> Batch:
    """Several batches as one."""
    first = parts[0].inputs
    if isinstance(first, dict):
        inputs: Any = {k: torch.cat([p.inputs[k] for p in parts]) for k in first}
    elif isinstance(first, (tuple, list)):
        inputs = tuple(torch.cat(column) for column in zip(*(p.inputs for p in parts), strict=True))
    else:
        inputs = torch.cat([p.inputs for p in parts])
    return Batch(inputs, torch.cat([p.labels for p in parts]))


def logits_of(model: nn.Module, batch: Batch) -> Tensor:
    """The model's scores (n, classes) for a batch that is on its device, checked to be logits."""
    if isinstance(batch.inputs, dict):
        output = model(**batch.inputs)
    elif isinstance(batch.inputs, (tuple, list)):
        output = model(*batch.inputs)
    else:
        output = model(batch.inputs)
    logits = output.get("logits") if isinstance(output, dict) else getattr(output, "logits", output)
    if not torch.is_tensor(logits) or logits.dim() != 2 or len(logits) != len(batch):
        what = f"a tensor of shape {tuple(logits.shape)}" if torch.is_tensor(logits) else f"a {type(output).__name__}"
        raise UnsupportedModel(
            f"for {len(batch)} samples the model returned {what}; it must return logits, a tensor (samples, classes), "
            "or an object with such a tensor as .logits: wrap it in a module that does"
        )
    return logits


def pieces(batch: Batch, size: int = 256) -> Iterator[Batch]:
    """A batch of any size in batches of `size`."""
    for chosen in torch.arange(len(batch), device=batch.labels.device).split(size):
        yield batch[chosen]


def all_logits(model: nn.Module, batch: Batch) -> Tensor:
    """As `logits_of`, for a batch of any size, a piece at a time."""
    return torch.cat([logits_of(model, piece) for piece in pieces(batch)])


def check_logits(logits: Tensor) -> None:
    """Refuse what is not logits: NaN, Inf, a single class, or probabilities."""
    if not torch.isfinite(logits).all():
        raise UnsupportedModel("the model returns NaN or Inf; check its weights and the scale of its inputs")
    if logits.shape[1] < 2:
        raise UnsupportedModel("the model has one output; a classifier needs one for each of two or more classes")
    sums = logits.sum(dim=1)
    if (logits >= 0).all() and torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        raise UnsupportedModel(
            "the model returns probabilities (no output is negative and each sample's sum to 1); "
            "return the logits before the softmax instead"
        )


def describe(inputs: Any) -> str:
    """The inputs of a model in words, for a message."""

    def one(t: Any) -> str:
        return f"{tuple(t.shape)} {str(t.dtype).removeprefix('torch.')}" if torch.is_tensor(t) else type(t).__name__

    if isinstance(inputs, dict):
        return "the keywords " + ", ".join(f"{k}={one(v)}" for k, v in inputs.items())
    if isinstance(inputs, (tuple, list)):
        return f"{len(inputs)} arguments, " + ", ".join(map(one, inputs))
    return f"one argument, {one(inputs)}"


def check_map_style(dataset: Any) -> None:
    """Refuse a loader, an iterable or bare tensors where a data set is needed that can be asked for sample i."""
    tensors = isinstance(dataset, (tuple, list)) and any(torch.is_tensor(part) for part in dataset)
    if tensors or not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise InvalidData(
            f"the data is a {type(dataset).__name__}; give a map-style data set, whose len() and [i] work: a loader's "
            "own .dataset, torch.utils.data.TensorDataset(x, y), or a list of (x, y)"
        )


def _tensors(inputs: Any) -> list[Tensor]:
    values = inputs.values() if isinstance(inputs, dict) else inputs if isinstance(inputs, (tuple, list)) else [inputs]
    return [v for v in values if torch.is_tensor(v)]


def _map(inputs: Any, f: Any) -> Any:
    apply = lambda v: f(v) if torch.is_tensor(v) else v  # noqa: E731
    if isinstance(inputs, dict):
        return {k: apply(v) for k, v in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        return tuple(apply(v) for v in inputs)
    return apply(inputs)
