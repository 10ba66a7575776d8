"""Copies of records among the data that stays: a record whose copy stays is not forgotten.

Exact copies have the same bytes. Near copies (a crop, another compression) are found by what the original network
makes of them: the inputs of its head point in almost the same direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc import peers
from unsc.batches import Batch, tensors_of
from unsc.datasets import Source, read_batches
from unsc.features import find_last_linear, head_inputs
from unsc.progress import Progress, quiet

OnCopies: TypeAlias = Literal["ignore", "report", "include"]
"""Do not look for copies; say where they are; or forget them together with their records."""

_BATCH = 256


@dataclass(frozen=True)
class Copies:
    """Copies of records, by the record's position in the data set: the positions of its copies that stay."""

    exact: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Samples whose inputs have the same bytes, whatever their label."""
    near: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Others of almost the same features."""
    looked_for: tuple[Literal["exact", "near"], ...] = ()
    included: bool = False
    """Whether they were forgotten as well."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Copies:
        """What was made of it by `dataclasses.asdict` and JSON, whose keys are strings and which has no tuples."""
        exact, near = ({int(i): tuple(own) for i, own in values[name].items()} for name in ("exact", "near"))
        return cls(exact, near, tuple(values["looked_for"]), values["included"])

    def without(self, positions: Iterable[int]) -> Copies:
        """Without copies at some positions."""
        others = set(positions)

        def left(found: dict[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
            kept = {i: tuple(j for j in own if j not in others) for i, own in found.items()}
            return {i: own for i, own in kept.items() if own}

        return replace(self, exact=left(self.exact), near=left(self.near))

    def copied(self) -> int:
        """How many records have copies that stay."""
        return 0 if self.included else len(self.exact.keys() | self.near.keys())

    def origins(self) -> dict[int, int]:
        """Every copy's position with that of a record it is a copy of, ascending."""
        found = [(c, r) for group in (self.near, self.exact) for r, own in group.items() for c in own]
        return dict(sorted(found))

    def note(self) -> str:
        """What was found, in words; empty if there is nothing to say."""
        count = len(self.origins())
        if not count:
            return ""
        if self.included:
            return f"{count} copies of records were found in the data and forgotten with them."
        return (
            f"{count} copies of records stay in the data, so those records are not forgotten; "
            "copies='include' forgets them too."
        )


def fingerprints(batch: Batch) -> list[bytes]:
    """A hash of every sample's inputs: of all their tensors, with type and shape. Labels do not count."""
    hashes = [sha256() for _ in range(len(batch))]  # which processors have instructions for
    inputs = batch.inputs
    # Two data sets may name the same inputs in another order.
    for tensor in tensors_of(dict(sorted(inputs.items())) if isinstance(inputs, dict) else inputs):
        kind = f"{tensor.dtype}{tuple(tensor.shape[1:])}".encode()
        flat = tensor.detach().cpu().reshape(len(batch), -1).contiguous().view(torch.uint8)
        for h, row in zip(hashes, flat.numpy(), strict=True):
            h.update(kind)
            h.update(row)
    return [h.digest() for h in hashes]


def all_fingerprints(
    source: Source, positions: Sequence[int] | None = None, *, progress: Progress = quiet
) -> list[bytes]:
    """Those of the samples at some `positions` of a data set, or of all, in one pass over them."""
    found: list[bytes] = []
    # Sequences are filled up to the longest of their batch, so each is read by itself.
    size = 1 if source.form.collate is not None else _BATCH
    chosen = torch.arange(len(source)) if positions is None else torch.tensor(positions)
    for batch in _pass(source, chosen[peers.own_part(len(chosen))], size, "looking for copies", progress):
        found += fingerprints(batch)
    return [one for of_rank in peers.gathered(found) for one in of_rank]


def exact_copies(prints: Sequence[bytes], records: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """For records at these positions, where samples with the same fingerprint stay; records without any left out."""
    chosen = set(records)
    where: dict[bytes, list[int]] = {prints[i]: [] for i in chosen}
    for i, own in enumerate(prints):
        if own in where and i not in chosen:
            where[own].append(i)
    return {i: tuple(where[prints[i]]) for i in sorted(chosen) if where[prints[i]]}


def near_copies(
    model: nn.Module,
    source: Source,
    records: Sequence[int],
    num_classes: int,
    *,
    least: float,
    progress: Progress = quiet,
) -> dict[int, tuple[int, ...]]:
    """For records at these positions, where samples stay whose features have a cosine of `least` with theirs.

    Features are what the head of `model`, in evaluation mode, is given. One forward pass over the data, and memory
    for the records' features and one batch's similarities to them.
    """
    chosen = torch.tensor(sorted(records))
    own = list(read_batches(source, chosen, size=_BATCH))
    head = find_last_linear(model, own[0], num_classes)
    centre = F.normalize(torch.cat([_flat(b) for b in head_inputs(model, head, own)]), dim=1)
    found: dict[int, list[int]] = {i: [] for i in chosen.tolist()}
    first = 0
    everything = _pass(source, torch.arange(len(source)), _BATCH, "looking for near copies", progress)
    for batch in head_inputs(model, head, everything):
        alike = F.normalize(_flat(batch), dim=1) @ centre.T >= least
        for row, column in alike.nonzero().tolist():
            if first + row not in found:
                found[int(chosen[column])].append(first + row)
        first += len(batch)
    return {i: tuple(others) for i, others in found.items() if others}


def _flat(batch: Batch) -> Tensor:
    return batch.inputs.float().flatten(1)


def _pass(source: Source, positions: Tensor, size: int, what: str, progress: Progress) -> Iterator[Batch]:
    with progress(what, -(-len(positions) // size)) as advance:
        for batch in read_batches(source, positions, size=size):
            yield batch
            advance()
