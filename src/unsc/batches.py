"""Batches of inputs and integer labels: samples as the rest of the package sees them.

Inputs may be a tensor, a tuple of tensors (passed to the model by position) or a dict of tensors (passed by name).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unsc.errors import InvalidData, listing

LABEL_KEYS = ("labels", "label", "y", "target")
"""Where dict samples hold their label, unless told otherwise."""


@dataclass(frozen=True)
class Batch:
    """`inputs` for the model and int64 `labels` (n,)."""

    inputs: Any
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, chosen: Tensor) -> Batch:
        """The samples at positions `chosen` (k,), or where a mask (n,) is true."""

        def take(t: Tensor) -> Tensor:
            return t[chosen]

        return Batch(_map(self.inputs, take), self.labels[chosen])

    def for_model(self, model: nn.Module) -> Batch:
        """On the model's device, and floating point inputs in its precision."""
        like = next(model.parameters())

        def move(t: Tensor) -> Tensor:
            return t.to(like.device, like.dtype if t.is_floating_point() else t.dtype)

        return Batch(_map(self.inputs, move), self.labels.to(like.device))


def as_batch(collated: Any, *, label_key: str | None = None) -> Batch:
    """A batch out of what a data loader yields: `(x, y)`, `(x1, x2, ..., y)` or a dict with a label key."""
    if isinstance(collated, Batch):
        return collated
    if isinstance(collated, Mapping):
        keys = [label_key] if label_key is not None else LABEL_KEYS
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


def pieces(batch: Batch, size: int = 256) -> Iterator[Batch]:
    """A batch of any size in batches of `size`."""
    for chosen in torch.arange(len(batch), device=batch.labels.device).split(size):
        yield batch[chosen]


def describe(inputs: Any) -> str:
    """The inputs of a model in words, for a message."""

    def one(t: Any) -> str:
        return f"{tuple(t.shape)} {str(t.dtype).removeprefix('torch.')}" if torch.is_tensor(t) else type(t).__name__

    if isinstance(inputs, dict):
        return "the keywords " + ", ".join(f"{k}={one(v)}" for k, v in inputs.items())
    if isinstance(inputs, (tuple, list)):
        return f"{len(inputs)} arguments, " + ", ".join(map(one, inputs))
    return f"one argument, {one(inputs)}"


def _tensors(inputs: Any) -> list[Tensor]:
    values = inputs.values() if isinstance(inputs, dict) else inputs if isinstance(inputs, (tuple, list)) else [inputs]
    return [v for v in values if torch.is_tensor(v)]


def _map(inputs: Any, f: Callable[[Tensor], Tensor]) -> Any:
    def apply(v: Any) -> Any:
        return f(v) if torch.is_tensor(v) else v

    if isinstance(inputs, dict):
        return {k: apply(v) for k, v in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        return tuple(apply(v) for v in inputs)
    return apply(inputs)
