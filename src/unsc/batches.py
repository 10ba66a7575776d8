"""Batches of inputs and integer labels: samples as the rest of the package sees them.

Inputs may be a tensor, a tuple of tensors (passed to the model by position) or a dict of tensors (passed by name).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.errors import InvalidData, listing

LABEL_KEYS = ("labels", "label", "y", "target")
"""Where dict samples hold their label, unless told otherwise."""


@dataclass(frozen=True)
class Padding:
    """What shorter sequences are filled up with."""

    value: float
    left: bool
    """Whether before them, not after them."""


class HasSamples(Protocol):
    """Samples, whether they are at hand or read when they are asked for."""

    @property
    def labels(self) -> Tensor:
        """int64 (n,)."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, chosen: Tensor, /) -> Batch:
        """Those at positions `chosen` (k,)."""
        ...


@dataclass(frozen=True)
class Batch:
    """`inputs` for the model and int64 `labels` (n,)."""

    inputs: Any
    labels: Tensor
    paddings: Mapping[Hashable, Padding] = field(default_factory=dict, repr=False, compare=False)
    """How sequences are filled up, by the name or position of the input, as far as it is known."""

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, chosen: Tensor) -> Batch:
        """The samples at positions `chosen` (k,), or where a mask (n,) is true."""

        def take(t: Tensor) -> Tensor:
            return t[chosen]

        return replace(self, inputs=_map(self.inputs, take), labels=self.labels[chosen])

    def for_model(self, model: nn.Module) -> Batch:
        """On the model's device, and floating point inputs in its precision."""
        like = next(model.parameters())

        def move(t: Tensor) -> Tensor:
            return t.to(like.device, like.dtype if t.is_floating_point() else t.dtype)

        return replace(self, inputs=_map(self.inputs, move), labels=self.labels.to(like.device))


def as_batch(collated: Any, *, label_key: str | None = None) -> Batch:
    """A batch out of what a data loader yields: `(x, y)`, `(x1, x2, ..., y)` or a dict with a label key.

    Inputs that are lists of numbers, or arrays, become tensors.
    """
    if isinstance(collated, Batch):
        return collated
    if isinstance(collated, Mapping):
        keys = [label_key] if label_key is not None else LABEL_KEYS
        key = next((k for k in keys if k in collated), None)
        if key is None:
            raise InvalidData(
                f"a sample has the keys {listing(collated)} but no label key ({listing(keys)}); give label_key=..."
            )
        inputs: Any = {k: _as_tensor(v, k) for k, v in collated.items() if k != key}
        labels = collated[key]
    elif isinstance(collated, (tuple, list)) and len(collated) >= 2:
        *parts, labels = collated
        parts = [_as_tensor(part, i) for i, part in enumerate(parts)]
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
            " (of labels 0.0 and 1.0, their y.long().flatten())"
        )
    for t in tensors_of(inputs):
        if t.is_floating_point() and not _finite(t):
            raise InvalidData("the inputs hold NaN or Inf; clean the data set before forgetting from it")
    return Batch(inputs, labels.long())


def _finite(t: Tensor) -> bool:
    """Whether there is no NaN or infinity: a sum that is finite shows it, in a thirtieth of the time."""
    return bool(torch.isfinite(t.sum()) or torch.isfinite(t).all())


def join(parts: Sequence[Batch]) -> Batch:
    """Several batches as one; sequences are filled up to the longest if it is known how."""
    first = parts[0]
    columns = [columns_of(part.inputs) for part in parts]
    joined = {name: torch.cat(_even([column[name] for column in columns], name, first.paddings)) for name in columns[0]}
    if isinstance(first.inputs, dict):
        inputs: Any = joined
    elif isinstance(first.inputs, (tuple, list)):
        inputs = tuple(joined.values())
    else:
        inputs = joined[0]
    return replace(first, inputs=inputs, labels=torch.cat([p.labels for p in parts]))


def columns_of(inputs: Any) -> dict[Hashable, Any]:
    """Each input by its name or its position."""
    if isinstance(inputs, dict):
        return dict(inputs)
    return dict(enumerate(inputs if isinstance(inputs, (tuple, list)) else [inputs]))


def _even(tensors: list[Tensor], name: Hashable, paddings: Mapping[Hashable, Padding]) -> list[Tensor]:
    """Tensors (n, length, ...) filled up to the same length."""
    lengths = {len(t[0]) if t.dim() > 1 and len(t) else 0 for t in tensors}
    if len(lengths) == 1:
        return tensors
    if name not in paddings:
        raise InvalidData(
            f"batches have {listing(sorted(lengths))} positions in the input {name!r}; fill all of them up to one "
            "length (of a tokenizer: padding='max_length', truncation=True), or give the data set and collate_fn=..."
        )
    how, longest = paddings[name], max(lengths)

    def filled(t: Tensor) -> Tensor:
        missing = longest - t.shape[1]
        return F.pad(t, [0, 0] * (t.dim() - 2) + ([missing, 0] if how.left else [0, missing]), value=how.value)

    return [filled(t) for t in tensors]


def pieces(batch: HasSamples, size: int = 256) -> Iterator[Batch]:
    """Any number of samples in batches of `size`."""
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


def _as_tensor(values: Any, name: Hashable) -> Any:
    """A list of numbers, or of lists of them, as a tensor; anything else as it is."""
    if not isinstance(values, (list, np.ndarray)) or not _holds_numbers(values):
        return values
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise InvalidData(
            f"the input {name!r} holds lists of different lengths; give a collate_fn=... that fills them up, such as "
            "transformers.DataCollatorWithPadding(tokenizer)"
        ) from None


def _holds_numbers(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return values.dtype.kind in "biuf"
    while isinstance(values, list) and values:
        values = values[0]
    return isinstance(values, (int, float, np.number))


def tensors_of(inputs: Any) -> list[Tensor]:
    """The tensors among a batch's inputs, each (n, ...), in the inputs' own order."""
    values = inputs.values() if isinstance(inputs, dict) else inputs if isinstance(inputs, (tuple, list)) else [inputs]
    return [v for v in values if torch.is_tensor(v)]


def tensors_by_name(inputs: Any) -> list[Tensor]:
    """The same, in an order that does not depend on how a data set orders their names."""
    return tensors_of(dict(sorted(inputs.items())) if isinstance(inputs, dict) else inputs)


def _map(inputs: Any, f: Callable[[Tensor], Tensor]) -> Any:
    def apply(v: Any) -> Any:
        return f(v) if torch.is_tensor(v) else v

    if isinstance(inputs, dict):
        return {k: apply(v) for k, v in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        return tuple(apply(v) for v in inputs)
    return apply(inputs)
