"""How samples become a batch for a model: collated, with a label, and only what the model takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from unsc.batches import LABEL_KEYS, Batch, Padding, as_batch, columns_of
from unsc.errors import InvalidData, UnscError, listing
from unsc.wrappers import without_wrappers

Collate: TypeAlias = Callable[[list[Any]], Any]
"""Takes samples and gives what a data loader yields for them."""

_TRIED = 64
"""Samples that are collated by themselves, at most, to see how sequences are filled up."""


@dataclass(frozen=True)
class Form:
    """The form of samples: where their label is, how they are collated and what of them goes into the model."""

    label_key: str | None = None
    """Where dict samples hold their label; None for the usual places."""
    collate: Collate | None = None
    """As in `DataLoader`; None stacks tensors, numbers and lists of numbers."""
    columns: frozenset[str] | None = None
    """What of dict samples the model takes; None for everything."""
    paddings: dict[Hashable, Padding] = field(default_factory=dict, repr=False, compare=False)
    """How sequences are filled up, learned from what `collate` does."""
    _tried: list[int] = field(default_factory=list, repr=False, compare=False)

    def batch(self, samples: Sequence[Any], positions: Sequence[int]) -> Batch:
        """The samples at these positions of a data set, as one batch."""
        try:
            made = self.of_collated(self._collated(list(samples)))
        except UnscError:
            raise
        except Exception as e:  # the user's own collate function may raise anything
            raise InvalidData(_why(samples, positions, e, ours=self.collate is None)) from e
        if self.collate is not None:
            self._learn_paddings(samples, positions, made)
        return made

    def of_collated(self, collated: Any) -> Batch:
        """A batch out of what a data loader yields."""
        batch = as_batch(collated, label_key=self.label_key)
        if self.columns is None or not isinstance(batch.inputs, dict):
            return replace(batch, paddings=self.paddings)
        taken = {name: value for name, value in batch.inputs.items() if name in self.columns}
        if not taken:
            raise InvalidData(
                f"the model takes none of the columns {listing(collated)}: its forward has {listing(self.columns)}. "
                "Rename a column (dataset.rename_column(old, new)); turn text into tokens first "
                "(dataset.map(lambda row: tokenizer(row['text'])))"
            )
        return replace(batch, inputs=taken, paddings=self.paddings)

    def fitting(self, samples: Sequence[Any]) -> Form:
        """This form, with samples trimmed to what the model takes if its `collate` cannot do with all of them.

        A collator of a tokenizer cannot stack columns of text that nobody needs; a function of the user may need them.
        """
        if self.collate is None or self.columns is None or not samples or _works(self.collate, list(samples)):
            return self
        whole = self.collate

        def of_trimmed(rows: list[Any]) -> Any:
            return whole([self._trimmed(row) for row in rows])

        return replace(self, collate=of_trimmed) if _works(of_trimmed, list(samples)) else self

    def _collated(self, samples: list[Any]) -> Any:
        if self.collate is not None:
            return self.collate(samples)
        return default_collate([_with_tensors(self._trimmed(sample)) for sample in samples])

    def _trimmed(self, sample: Any) -> Any:
        """Without the columns that the model does not take, unless nothing would be left."""
        if self.columns is None or not isinstance(sample, Mapping):
            return sample
        keys = LABEL_KEYS if self.label_key is None else (self.label_key,)
        taken = {k: v for k, v in sample.items() if k in self.columns and k not in keys}
        return {**taken, **{k: v for k, v in sample.items() if k in keys}} if taken else sample

    def _learn_paddings(self, samples: Sequence[Any], positions: Sequence[int], together: Batch) -> None:
        """Compare samples in the batch with the same samples collated by themselves, which are shorter."""
        for row, sample in enumerate(samples if len(samples) > 1 else ()):
            if len(self._tried) >= _TRIED or self.paddings:
                return
            self._tried.append(positions[row])
            try:
                alone = columns_of(self.of_collated(self._collated([sample])).inputs)
            except Exception:  # the user's own function need not work for one sample
                continue
            for name, t in columns_of(together.inputs).items():
                if (how := _padding(alone.get(name), t, row)) is not None:
                    self.paddings[name] = how


def columns_taken_by(model: nn.Module) -> frozenset[str] | None:
    """The names of what `model` takes; None if it takes anything."""
    inner = without_wrappers(model).inner
    base = getattr(inner, "get_base_model", None)  # adapters take anything and hand it on to the network inside
    network: Any = base() if callable(base) else inner
    try:
        parameters = inspect.signature(network.forward).parameters.values()
    except (TypeError, ValueError):
        return None
    named = frozenset(p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
    # What networks of transformers take beyond the names are settings, not columns.
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters) and not hasattr(network, "main_input_name")
    return None if open_ended or not named else named


def _works(collate: Collate, samples: list[Any]) -> bool:
    try:
        collate(samples)
    except Exception:  # the user's own function may raise anything; what it is will be said where samples are read
        return False
    return True


def _padding(alone: Any, together: Any, row: int) -> Padding | None:
    """How a sequence that is (1, length) alone was filled up to be row `row` of (n, longer)."""
    if not (isinstance(alone, Tensor) and isinstance(together, Tensor)) or together.dim() < 2:
        return None
    short, whole = alone[0], together[row]
    if short.shape[1:] != whole.shape[1:] or not 0 < len(short) < len(whole):
        return None
    for left, content, rest in (
        (False, whole[: len(short)], whole[len(short) :]),
        (True, whole[-len(short) :], whole[: -len(short)]),
    ):
        if torch.equal(content, short) and (rest == rest.flatten()[0]).all():
            return Padding(rest.flatten()[0].item(), left)
    return None


def _with_tensors(sample: Any) -> Any:
    """A sample whose lists of numbers are tensors, so that they are stacked and not taken apart."""

    def one(value: Any) -> Any:
        if not isinstance(value, list) or not value:
            return value
        try:
            return torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError):
            return value

    if isinstance(sample, Mapping):
        return {key: one(value) for key, value in sample.items()}
    if type(sample) in (tuple, list):
        return type(sample)(map(one, sample))
    return sample


def _why(samples: Sequence[Any], positions: Sequence[int], error: Exception, *, ours: bool) -> str:
    """What went wrong when samples were collated, which ones, and what to do."""
    said = f"{type(error).__name__}: {error}"
    if not ours:
        named = listing(positions)
        return (
            f"collate_fn cannot collate the samples {named} ({said}); it is given a list of what the data set returns"
        )
    parts = [_parts(sample) for sample in samples]
    for position, own in zip(positions, parts, strict=True):
        for name, value in own.items():
            if type(value).__module__.startswith("PIL."):
                return (
                    f"sample {position} holds a PIL image ({name}); give the data set a transform that makes tensors, "
                    "such as torchvision.transforms.ToTensor(), or (Hugging Face) dataset.set_transform(...)"
                )
    shapes = [{name: _shape(value) for name, value in own.items()} for own in parts]
    other = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), None)
    remedy = (
        "Give collate_fn=..., as in DataLoader; for text, transformers.DataCollatorWithPadding(tokenizer)"
        if other is None or any(len(s) == 1 for s in shapes[other].values())
        else "Give the data set a transform that makes all samples alike, or collate_fn=..., as in DataLoader"
    )
    if other is None:
        return f"the samples {listing(positions)} cannot be made a batch ({said:.300}). {remedy}"
    found = " and ".join(
        f"sample {positions[i]} has " + ", ".join(f"{name} {shape}" for name, shape in shapes[i].items())
        for i in (0, other)
    )
    return f"samples of different shapes cannot be made a batch: {found}. {remedy}"


def _parts(sample: Any) -> dict[Any, Any]:
    made = _with_tensors(sample)
    if isinstance(made, Mapping):
        return dict(made)
    return {f"part {i}": value for i, value in enumerate(made)} if isinstance(made, (tuple, list)) else {"it": made}


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(getattr(value, "shape", ()))
